-- hide_everywhere(known, version, member, hiding, pending) -> 'done', 'outdated' or 'pending'
-- Hides a member on all boards, or shows it again. The boards take up the new list one by one; the next
-- change is refused until all have.
--
-- KEYS[1]  …{boards}:hv   the version of the list of members that are hidden on all boards
-- ARGV[1]  msgpack [known: the version that the caller knows, version: the new one, member, hiding or
--   false, pending: the change as the caller encoded it]
-- beside KEYS[1], in its slot:
--   …{boards}:hh   hash: hidden member -> its hiding as the caller encoded it
--   …{boards}:hp   hash: version -> the change that not all boards have taken up
local known, version, member, hiding, pending = unpack(cmsgpack.unpack(ARGV[1]), 1, 5)
local base = string.sub(KEYS[1], 1, -2)
if tonumber(redis.call('GET', KEYS[1]) or '0') ~= known then return 'outdated' end
if redis.call('HLEN', base .. 'p') > 0 then return 'pending' end
local text = string.format('%.17g', version)
redis.call('SET', KEYS[1], text)
redis.call('HSET', base .. 'p', text, pending)
if hiding then
  redis.call('HSET', base .. 'h', member, hiding)
else
  redis.call('HDEL', base .. 'h', member)
end
return 'done'
