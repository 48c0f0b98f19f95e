-- clear_note(key, value) -> 1 or 0
-- Removes a note if it has this value.
--
-- KEYS[1]  …{boards}:f   hash: key -> note
-- ARGV[1]  msgpack [key, value]
local key, value = unpack(cmsgpack.unpack(ARGV[1]), 1, 2)
if redis.call('HGET', KEYS[1], key) ~= value then return 0 end
return redis.call('HDEL', KEYS[1], key)
