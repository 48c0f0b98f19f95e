-- deleted_position(field, text, follows) -> the stored position, or false if it was moved
-- Moves the position of a sink in the changes of a deleted board.
--
-- KEYS[1]  …{boards}:zp   hash: field -> position of a sink; a field is the unique id of a board, a
--   slash and the name of the source
-- ARGV[1]  msgpack [field, text, follows: the position that must be stored, '' for none; nil if any
--   may be stored]
local field, text, follows = unpack(cmsgpack.unpack(ARGV[1]), 1, 3)
local stored = redis.call('HGET', KEYS[1], field) or ''
if stored == text then return false end
if follows and stored ~= follows then return stored end
redis.call('HSET', KEYS[1], field, text)
return false
