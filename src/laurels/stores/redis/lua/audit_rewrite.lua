-- audit_rewrite(target, entries, last) -> 1 or 0
-- Appends entries to a new stream, with the ids that they have in the audit log. With `last`, the id of
-- the last entry that was read from the log, the new stream takes the place of the log, after the
-- entries that were added meanwhile. Returns 0 if there are too many of these to be copied at once.
--
-- KEYS[1]  …{boards}:audit   stream: the audit log
-- ARGV[1]  msgpack [target: the key of the new stream, entries: {id, body, …}, last or nil]
local target, entries, last = unpack(cmsgpack.unpack(ARGV[1]), 1, 3)
for i = 1, #entries, 2 do redis.call('XADD', target, entries[i], 'e', entries[i + 1]) end
if not last then return 0 end
local rest = redis.call('XRANGE', KEYS[1], '(' .. last, '+', 'COUNT', '1000')
if #rest == 1000 then return 0 end
for _, entry in ipairs(rest) do redis.call('XADD', target, entry[1], unpack(entry[2])) end
redis.call('RENAME', target, KEYS[1])
return 1
