-- raise_format(format) -> the version that is stored now
-- Stores the version of the format of all keys, unless a newer one is stored.
--
-- KEYS[1]  …{boards}:f   hash: key -> note
-- ARGV[1]  msgpack, a number
local format = cmsgpack.unpack(ARGV[1])
local stored = tonumber(redis.call('HGET', KEYS[1], 'format') or 0)
if stored >= format then return stored end
redis.call('HSET', KEYS[1], 'format', string.format('%d', format))
return format
