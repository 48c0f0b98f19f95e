-- restore(uid, name, new, unfinished {names}, erased, sinks) -> 1 or 0
-- Stores the definition of a removed board again, under a name that may be another one. Returns 0, without
-- a change, if the board is no longer in the list, if the name is taken, if there is an unfinished copy of
-- one of the names, or if a member was erased since the caller read the state of the board.
--
-- KEYS[1]  …{boards}:d   hash: name -> definition
-- ARGV[1]  msgpack [unique id, name, definition, names, the note `erased` as the caller has read it or
--   false, the fields of …{boards}:zp that belong to the board]
-- for the keys beside KEYS[1] see put_definition.lua; …{boards}:zp has the positions of sinks in the
-- changes of deleted boards
local uid, name, new, unfinished, erased, sinks = unpack(cmsgpack.unpack(ARGV[1]))
local base = string.sub(KEYS[1], 1, -2)
local notes = base .. 'f'
if redis.call('HEXISTS', base .. 'rd', uid) == 0 or redis.call('HEXISTS', KEYS[1], name) == 1 then return 0 end
for _, each in ipairs(unfinished) do
  if redis.call('HEXISTS', notes, 'copy:' .. each) == 1 then return 0 end
end
if redis.call('HEXISTS', notes, 'erasing') == 1 or redis.call('HGET', notes, 'erased') ~= erased then return 0 end
redis.call('HSET', KEYS[1], name, new)
redis.call('HDEL', notes, 'moving:' .. name)
redis.call('ZREM', base .. 'r', uid)
for _, list in ipairs({'rl', 'rd', 'rb', 'z'}) do redis.call('HDEL', base .. list, uid) end
for _, sink in ipairs(sinks) do redis.call('HDEL', base .. 'zp', sink) end
return 1
