-- keys_load() -> [version or nil, signing secrets or nil, [name, key, name, key, …]]
-- Reads the stored keys and signing secrets in one step.
--
-- KEYS[1]  …{boards}:k   hash: name -> key
-- beside KEYS[1], in its slot:
--   …{boards}:kv   the version of the keys
--   …{boards}:ks   the secrets that tokens are signed with
local base = string.sub(KEYS[1], 1, -2)
return {
  redis.call('GET', base .. 'kv'),
  redis.call('GET', base .. 'ks'),
  redis.call('HGETALL', KEYS[1])
}
