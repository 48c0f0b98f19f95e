-- changes_read(board, after, limit, deleted) -> {'done', newest, tag, floor, floor's tag, hsent}, entries…
-- Returns the block with the sequence `after`, if it is still kept, and the blocks after it until
-- these have more than `limit` changes. Each block is returned as sequence, tag, begun, result,
-- sent, clears. For a deleted board, `deleted` names a field of P m that exists once the changes of
-- the board have ended; until then the call is refused.
local readable = A.deleted and call('HEXISTS', KEYS[1], A.deleted) == 1
if not readable and (A.deleted or call('HGET', KEYS[1], 'ver') ~= B.version) then
  return {cmsgpack.pack({'definition_outdated'})}
end

local stored = call('HMGET', KEYS[1], 'hseq', 'htag', 'hfloor', 'hsent')
local newest, tag = stored[1] or '0', stored[2] or '0'
local floor_sequence, floor_tag = string.match(stored[3] or '0:0', '^(%d+):(%d+)$')
if call('EXISTS', P .. 'h') == 0 then floor_sequence, floor_tag = newest, tag end
local reply, left, last = {''}, A.limit + 1, text(A.after)
local id = last .. '-0'
while left > 0 do
  local count = math.min(20, left)
  local some = call('XRANGE', P .. 'h', id, '+', 'COUNT', text(count))
  for _, entry in ipairs(some) do
    local fields = entry[2]
    reply[#reply + 1] = string.match(entry[1], '^%d+')
    reply[#reply + 1] = fields[2]
    reply[#reply + 1] = fields[10]
    reply[#reply + 1] = fields[12]
    reply[#reply + 1] = fields[14] or '0'
    reply[#reply + 1] = fields[16] or '0'
    if reply[#reply - 5] ~= last then left = left - tonumber(fields[6]) end
    id = '(' .. entry[1]
    if left <= 0 then break end
  end
  if #some < count then break end
end
reply[1] = cmsgpack.pack({'done', newest, tag, floor_sequence, floor_tag, stored[4] or '0'})
return reply
