-- audit_rewrite(target, entries, rewrites, last, count) -> 1 or 0
-- Appends entries to a new stream, with the ids that they have in the audit log. With `last`, the id of
-- the last entry that was read from the log, the new stream takes the place of the log, after the
-- entries that were added meanwhile. Returns 0 if there are too many of these to be copied at once, if
-- the new stream no longer has its `count` entries, or if the log was rewritten since it was read.
--
-- KEYS[1]  …{boards}:audit   stream: the audit log
-- ARGV[1]  msgpack [target: the key of the new stream, entries: {id, body, …}, rewrites: how often the
--          log had been rewritten when it was read, last or nil, count or nil]
--
-- …{boards}:audit:rewrites has how often the log was rewritten. A new stream whose process has ended
-- expires.
local target, entries, rewrites, last, count = unpack(cmsgpack.unpack(ARGV[1]), 1, 5)
local counter = KEYS[1] .. ':rewrites'
if (redis.call('GET', counter) or '0') ~= rewrites then
  redis.call('UNLINK', target)
  return 0
end
for i = 1, #entries, 2 do redis.call('XADD', target, entries[i], 'e', entries[i + 1]) end
if not last then
  redis.call('EXPIRE', target, '600')
  return 0
end
if redis.call('XLEN', target) ~= count then return 0 end
local rest = redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', '1000')
if #rest == 1000 then return 0 end
for _, entry in ipairs(rest) do redis.call('XADD', target, entry[1], unpack(entry[2])) end
redis.call('RENAME', target, KEYS[1])
redis.call('PERSIST', KEYS[1])
redis.call('INCR', counter)
return 1
