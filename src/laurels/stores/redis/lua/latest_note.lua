-- latest_note(boards, most)
-- Notes that boards have new changes. All boards of a call get the same sequence.
--
-- KEYS[1]  …{boards}:c   sorted set: the number of a board -> the sequence of its latest change
-- ARGV[1]  msgpack [numbers of boards, the maximum number of boards that are kept]
-- beside KEYS[1], in its slot:
--   …{boards}:cn   the newest sequence
--   …{boards}:cf   the newest sequence that was removed; changes up to this sequence are not known
local boards, most = unpack(cmsgpack.unpack(ARGV[1]))
local sequence = string.format('%.17g', redis.call('INCR', KEYS[1] .. 'n'))
local entries = {}
for i, board in ipairs(boards) do
  entries[2 * i - 1], entries[2 * i] = sequence, board
end
redis.call('ZADD', KEYS[1], unpack(entries))
local beyond = redis.call('ZCARD', KEYS[1]) - most
if beyond > 0 then
  local last = redis.call('ZRANGE', KEYS[1], beyond - 1, beyond - 1, 'WITHSCORES')
  redis.call('ZREMRANGEBYRANK', KEYS[1], 0, beyond - 1)
  redis.call('SET', KEYS[1] .. 'f', last[2])
end
return 1
