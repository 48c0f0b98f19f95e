-- put(name, old, new, number, deletion, moved) -> 1, 0 or -1
-- Replaces the definition of a board if it has not changed since the caller read it. Returns -1 if the
-- board is being moved to another store, and its writes are blocked.
--
-- KEYS[1]  …{boards}:d   hash: name -> definition
-- ARGV[1]  msgpack [name, old or nil, new or nil, number or nil, deletion or nil, moved]; a deletion is
--   {unique id of the board, the deletion encoded} of a board whose changes are kept; `moved` is true if
--   the board was moved to another store and is deleted here
-- beside KEYS[1], in its slot:
--   …{boards}:n   the number of the next board
--   …{boards}:g   hash: definitions of deleted boards whose keys still have to be removed
--   …{boards}:z   hash: unique id -> deletion, the deleted boards whose changes are kept
--   …{boards}:f   hash: notes; `moving:<name>` is the owner of the move that blocks the writes of a board
local name, old, new, number, deletion, moved = unpack(cmsgpack.unpack(ARGV[1]), 1, 6)
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
  redis.call('HSET', base .. 'g', present, '')
  if deletion then redis.call('HSET', base .. 'z', deletion[1], deletion[2]) end
end
return 1
