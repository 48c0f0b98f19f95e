-- The feed of a shard: what rankings by a label, which lie in a slot of their own, need of the events
-- that the shard has counted.
--
--   P f           stream: an entry for each batch, in the order in which they counted; its id is the
--                 time, counted from 1900, and how many there were before it
--   P m told      the id of the last entry
--   P m fed:<i>   where the rankings by a label lie: the last entry of shard i that counts in them
--   P m left      there: how many events were left out, since a total would have left the range
-- An entry and the events it tells of are written in one step, and so are what an entry makes of the
-- rankings by a label and how far they have come: whoever dies between, an entry counts once.
local BEGIN = 2208988800000  -- milliseconds from 1900 to 1970: ids are not negative
local NOTHING = '0-0'

-- Whether somebody else has counted entries that the caller counts on being next; up to where.
local function others_fed()
  for _, each in ipairs(A.fed or {}) do
    local field = 'fed:' .. text(each[1])
    if (call('HGET', KEYS[1], field) or NOTHING) ~= each[2] then
      local fields = {}
      for i = 1, A.feeds do fields[i] = 'fed:' .. text(i - 1) end
      local found = call('HMGET', KEYS[1], unpack(fields))
      for i = 1, A.feeds do found[i] = found[i] or NOTHING end
      return {'fed', found}
    end
  end
  return nil
end

-- Notes how far the rankings by a label have come, and how many events could not count in them.
local function note_fed(codes)
  local left = 0
  for _, code in ipairs(codes) do
    if code == 3 then left = left + 1 end
  end
  if left > 0 then call('HINCRBY', KEYS[1], 'left', text(left)) end
  for _, each in ipairs(A.fed) do call('HSET', KEYS[1], 'fed:' .. text(each[1]), each[3]) end
end

-- Tells the feed of a batch; `baselines` is what the members had whose totals were set. Events that did
-- not count are named, by their places.
local function tell_feed(codes, baselines)
  local refused = {}
  for event = 1, #codes do
    if codes[event] > 2 then refused[#refused + 1] = event - 1 end
  end
  if #refused == #codes then return end
  local before = tonumber(string.match(call('HGET', KEYS[1], 'told') or NOTHING, '%d+$'))
  local id = text(A.now + BEGIN) .. '-' .. text(before + 1)
  local but = cmsgpack.pack({refused, baselines or {}})
  call('XADD', P .. 'f', id, 'batch', A.feed, 'but', but)
  call('HSET', KEYS[1], 'told', id)
end
