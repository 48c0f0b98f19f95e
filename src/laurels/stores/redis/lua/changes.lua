-- The changes that a board keeps. Each call that changes the board adds one block to a stream of
-- the shard. The changes that sinks have to send are called changes for sinks.
--
--   P h         stream: a block with the id <sequence>-0 has its tag, the tag of the block before it
--               (before), the number of its changes (count), its time (now), the block as the caller
--               encoded it before the call (begun), the result of the call (result), the value of
--               hsent after the call (sent), and on a board that was cleared the number of
--               clearings so far (clears, see clearing.lua)
--   P hx        list: sequence:tag:count:now of each block, so that trimming need not read the stream;
--               here `count` is the number of changes for sinks in the block
--   P m hseq    the sequence of the newest block; its tag is htag
--   P m hfloor  sequence:tag of the newest block that was removed
--   P m hcount  the number of changes for sinks in the blocks of the stream
--   P m hsent   the number of changes for sinks in all blocks ever added. So hsent minus `sent` of
--               a block is the number of changes for sinks in all later blocks
--   P m until   the time until which the changes of a deleted board are kept; P m hend is the tag of
--               its last block, the deletion, in the shard that has it
--   P hs        hash: registered sink -> sequence of the newest block it has confirmed. Blocks
--               that a sink has not confirmed stay, up to `most` changes; P m hlost counts the
--               changes that were removed unconfirmed
-- A call to be recorded has A.changes: tag, block, count (the number of changes other than events),
-- unsent (the number of changes in the block that are not for sinks), keep (milliseconds), most
-- (changes); for a batch also windows (indices of A.windows) and absolute.
local TRIMMED = 16  -- one call adds one block, and removes at most this many

-- Returns the newest block that all registered sinks have confirmed; false if there are no sinks.
local function least_confirmed()
  local least = false
  for _, sequence in ipairs(call('HVALS', P .. 'hs')) do
    least = math.min(least or tonumber(sequence), tonumber(sequence))
  end
  return least
end

local function trim(c, now, total)
  local confirmed, lost = nil, 0
  for _ = 1, TRIMMED do
    local oldest = call('LINDEX', P .. 'hx', 0)
    local sequence, tag, count, at = string.match(oldest, '^(%d+):(%d+):(%d+):(-?%d+)$')
    local expired = tonumber(at) < now - c.keep or total > c.most
    if not expired or call('LLEN', P .. 'hx') == 1 then break end
    if confirmed == nil then confirmed = least_confirmed() end
    if confirmed and tonumber(sequence) > confirmed then
      if total <= c.most then break end
      lost = lost + tonumber(count)
    end
    call('LPOP', P .. 'hx')
    call('XDEL', P .. 'h', sequence .. '-0')
    call('HSET', KEYS[1], 'hfloor', sequence .. ':' .. tag)
    total = total - tonumber(count)
  end
  if lost > 0 then call('HINCRBY', KEYS[1], 'hlost', text(lost)) end
  return total
end

-- Removes all blocks, after a time in which the board kept no changes. A new tag ensures that a
-- reader that had read to the end notices the gap.
local function restart(tag)
  call('UNLINK', P .. 'h', P .. 'hx')
  local sequence = text(call('HINCRBY', KEYS[1], 'hseq', 1))
  call('HSET', KEYS[1], 'htag', tag, 'hcount', '0', 'hfloor', sequence .. ':' .. tag)
end

-- Appends a block of `count` changes to the stream.
local function record(count, now, result)
  local c = A.changes
  local sequence = text(call('HINCRBY', KEYS[1], 'hseq', 1))
  local stored = call('HMGET', KEYS[1], 'htag', 'hcount', 'clears')
  local before, total = stored[1] or '0', tonumber(stored[2] or '0')
  local sent = count - c.unsent
  local sum = text(call('HINCRBY', KEYS[1], 'hsent', text(sent)))
  local fields = {'tag', c.tag, 'before', before, 'count', text(count), 'now', text(now), 'begun', c.block,
                  'result', result, 'sent', sum}
  if stored[3] then fields[#fields + 1], fields[#fields + 2] = 'clears', stored[3] end
  call('XADD', P .. 'h', sequence .. '-0', unpack(fields))
  local entry = table.concat({sequence, c.tag, text(sent), text(now)}, ':')
  if call('RPUSH', P .. 'hx', entry) == 1 then  -- the first block, or all earlier ones have expired
    total = 0
    call('HSET', KEYS[1], 'hfloor', text(tonumber(sequence) - 1) .. ':' .. before)
  end
  total = trim(c, now, total + sent)
  call('HSET', KEYS[1], 'htag', c.tag, 'hcount', text(total))
  if c.expires and call('EXISTS', P .. 'hs') == 1 then
    call('PERSIST', P .. 'h')
    call('PERSIST', P .. 'hx')
  elseif c.expires then
    call('PEXPIRE', P .. 'h', text(c.keep))
    call('PEXPIRE', P .. 'hx', text(c.keep))
  end
end
