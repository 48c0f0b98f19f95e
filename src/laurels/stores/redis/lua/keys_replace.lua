-- keys_replace(old version, new version, signing secrets, put, remove) -> 1 or 0
-- Stores and removes keys if they have not changed since the old version was read.
--
-- KEYS[1]  …{boards}:k   hash: name -> key
-- ARGV[1]  msgpack [old version or nil, new version, signing secrets, [name, key, …], [name, …]]
-- beside KEYS[1], in its slot:
--   …{boards}:kv   the version of the keys
--   …{boards}:ks   the secrets that tokens are signed with
--   …{boards}:f    hash of flags: needs_keys is set once there was a key
local old, new, signing, put, remove = unpack(cmsgpack.unpack(ARGV[1]), 1, 5)
local base = string.sub(KEYS[1], 1, -2)
if redis.call('GET', base .. 'kv') ~= (old or false) then return 0 end
redis.call('HSET', base .. 'f', 'needs_keys', 'yes')
redis.call('SET', base .. 'kv', new)
redis.call('SET', base .. 'ks', signing)
for place = 1, #put, 2 do redis.call('HSET', KEYS[1], put[place], put[place + 1]) end
for place = 1, #remove do redis.call('HDEL', KEYS[1], remove[place]) end
return 1
