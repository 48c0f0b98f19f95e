-- pending(board, after, limit) -> {'done', last, ids}, batch, but, batch, but…
-- Returns the entries of a shard's feed after the id `after`, as feed.lua wrote them: each is a
-- batch and, as `but`, its events that did not count. `ids` are the ids of the returned entries,
-- `last` is the id of the feed's last entry. Entries up to `after` are deleted, since the label
-- replica has counted them.
if call('HGET', KEYS[1], 'ver') ~= B.version then return {cmsgpack.pack({'definition_outdated'})} end

local feed = P .. 'f'
local time, number = string.match(A.after, '^(%d+)-(%d+)$')
call('XTRIM', feed, 'MINID', time .. '-' .. text(tonumber(number) + 1))
local ids, reply = {}, {''}  -- the first text is set to the packed answer at the end
for i, entry in ipairs(call('XRANGE', feed, '(' .. A.after, '+', 'COUNT', text(A.limit))) do
  ids[i], reply[2 * i], reply[2 * i + 1] = entry[1], entry[2][2], entry[2][4]
end
reply[1] = cmsgpack.pack({'done', call('HGET', KEYS[1], 'told') or '0-0', ids})
return reply
