-- forget_removed(uid)
-- Takes a removed board off the list of those that can be restored. Its keys still have to be removed.
--
-- KEYS[1]  …{boards}:r   see put_definition.lua
-- ARGV[1]  the unique id of the board
-- beside KEYS[1], in its slot: …{boards}:g, rl, rd, and …{boards}:rb, a hash: unique id -> bytes of memory
-- that the keys of the board take
local base = string.sub(KEYS[1], 1, -2)
local definition = redis.call('HGET', KEYS[1] .. 'd', ARGV[1])
if definition then redis.call('HSET', base .. 'g', definition, '') end
redis.call('ZREM', KEYS[1], ARGV[1])
for _, list in ipairs({'rl', 'rd', 'rb'}) do redis.call('HDEL', base .. list, ARGV[1]) end
