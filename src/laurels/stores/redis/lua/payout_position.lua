-- payout_position(reader, position, before) -> the stored position, or false if it was replaced
-- Replaces the position of a reader in the due payouts.
--
-- KEYS[1]  …{boards}:pp   hash: reader -> position
-- ARGV[1]  msgpack [reader, position, before: the position that must be stored]; '' stands for none
local reader, position, before = unpack(cmsgpack.unpack(ARGV[1]), 1, 3)
local stored = redis.call('HGET', KEYS[1], reader) or ''
if stored ~= before then return stored end
if position == '' then
  redis.call('HDEL', KEYS[1], reader)
else
  redis.call('HSET', KEYS[1], reader, position)
end
return false
