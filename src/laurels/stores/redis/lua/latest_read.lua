-- latest_read(after) -> {sequence, boards…}, or {sequence, false}
-- Returns the newest sequence, and the numbers of the boards with changes after a sequence; see
-- latest_note.lua. Returns false in place of the numbers if they cannot be determined: `after` is
-- empty, some sequence after it was removed, or the server was emptied.
local after = tonumber(ARGV[1])
local newest = redis.call('GET', KEYS[1] .. 'n') or '0'
local floor = tonumber(redis.call('GET', KEYS[1] .. 'f') or '0')
if not after or after < floor or after > tonumber(newest) then return {newest, false} end
local reply = redis.call('ZRANGEBYSCORE', KEYS[1], '(' .. ARGV[1], '+inf')
table.insert(reply, 1, newest)
return reply
