-- put(name, old, new, number, deletion, moved, removed) -> 1, 0 or -1
-- Replaces the definition of a board if it has not changed since the caller read it. Returns -1 if the
-- board is being moved to another store, and its writes are blocked.
--
-- KEYS[1]  …{boards}:d   hash: name -> definition
-- ARGV[1]  msgpack [name, old or nil, new or nil, number or nil, deletion or nil, moved, removed or nil]; a
--   deletion is {unique id of the board, the deletion encoded} of a board whose changes are kept; `moved`
--   is true if the board was moved to another store and is deleted here; `removed` is {unique id, the
--   board as it is listed} of a removed board that can be restored
-- beside KEYS[1], in its slot:
--   …{boards}:n   the number of the next board
--   …{boards}:g   hash: definitions of deleted boards whose keys still have to be removed -> 'kept' if the
--                 board can be restored, else empty
--   …{boards}:z   hash: unique id -> deletion, the deleted boards whose changes are kept
--   …{boards}:f   hash: notes; `moving:<name>` is the owner of the move that blocks the writes of a board
--   …{boards}:r   sorted set: the unique ids of the removed boards that can be restored, by the order of
--                 their removal
--   …{boards}:rn  the number of boards that were ever added to this set
--   …{boards}:rl  hash: unique id -> such a board as it is listed
--   …{boards}:rd  hash: unique id -> the definition of such a board
local name, old, new, number, deletion, moved, removed = unpack(cmsgpack.unpack(ARGV[1]), 1, 7)
local base = string.sub(KEYS[1], 1, -2)
local present = redis.call('HGET', KEYS[1], name)
if present ~= (old or false) then return 0 end
if moved or not present then
  redis.call('HDEL', base .. 'f', 'moving:' .. name)
elseif redis.call('HEXISTS', base .. 'f', 'moving:' .. name) == 1 then
  return -1
end
if number then
  local next_number = tonumber(redis.call('GET', base .. 'n') or '1')
  if next_number ~= number then return 0 end
  redis.call('SET', base .. 'n', string.format('%.17g', number + 1))
end
if new then
  redis.call('HSET', KEYS[1], name, new)
else
  redis.call('HDEL', KEYS[1], name)
  redis.call('HSET', base .. 'g', present, removed and 'kept' or '')
  if deletion then redis.call('HSET', base .. 'z', deletion[1], deletion[2]) end
  if removed then
    redis.call('ZADD', base .. 'r', redis.call('INCR', base .. 'rn'), removed[1])
    redis.call('HSET', base .. 'rl', removed[1], removed[2])
    redis.call('HSET', base .. 'rd', removed[1], present)
  end
end
return 1
