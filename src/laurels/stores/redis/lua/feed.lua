-- The feed of a shard: a stream with the data about counted events that the label replica needs.
-- The replica is in another slot of the cluster.
--
--   P f           stream: one entry for each batch, in the order in which they were counted; its id is
--                 the time in milliseconds since 1900, and the number of the entry
--   P m told      the id of the last entry
--   P m fed:<i>   in the label replica: the id of the last entry of shard i that it has counted
--   P m left      in the label replica: the number of events that it left out because a total would have
--                 been out of range
-- A shard appends an entry in the call that counts the events, and the label replica stores the id of
-- an entry in the call that counts the entry. So each entry counts once, whichever process fails.
local EPOCH_OFFSET_MS = 2208988800000  -- milliseconds from 1900 to 1970, since ids must not be negative
local FEED_START = '0-0'

-- Returns nil if the caller's entries are the next ones to count. If another process has counted
-- some of them, returns the last counted entry of each feed.
local function feed_conflict()
  for _, span in ipairs(A.spans or {}) do
    local field = 'fed:' .. text(span[1])
    if (call('HGET', KEYS[1], field) or FEED_START) ~= span[2] then
      local fields = {}
      for i = 1, A.feeds do fields[i] = 'fed:' .. text(i - 1) end
      local last_ids = call('HMGET', KEYS[1], unpack(fields))
      for i = 1, A.feeds do last_ids[i] = last_ids[i] or FEED_START end
      return {'feed_conflict', last_ids}
    end
  end
  return nil
end

-- Stores in the label replica the last counted entries, and how many events were left out (code 3,
-- out of range).
local function note_counted_entries(codes)
  local left_out = 0
  for _, code in ipairs(codes) do
    if code == 3 then left_out = left_out + 1 end
  end
  if left_out > 0 then call('HINCRBY', KEYS[1], 'left', text(left_out)) end
  for _, span in ipairs(A.spans) do call('HSET', KEYS[1], 'fed:' .. text(span[1]), span[3]) end
end

-- Appends a batch to the feed, with the positions of the events that did not count (codes above 2).
-- `baselines` are the totals before events that set a total.
local function append_to_feed(codes, baselines)
  local refused = {}
  for event = 1, #codes do
    if codes[event] > 2 then refused[#refused + 1] = event - 1 end
  end
  if #refused == #codes then return end
  local before = tonumber(string.match(call('HGET', KEYS[1], 'told') or FEED_START, '%d+$'))
  local id = text(A.now + EPOCH_OFFSET_MS) .. '-' .. text(before + 1)
  local outcome = cmsgpack.pack({refused, baselines or {}})
  call('XADD', P .. 'f', id, 'batch', A.feed, 'but', outcome)
  call('HSET', KEYS[1], 'told', id)
end
