-- The changes that a board keeps: a block for each call that changed it, in the shard's stream.
--
--   P h         stream: a block under the id <sequence>-0, with its tag, the tag before it (before),
--               how many changes it has (count), when (now), what was known before the call (begun),
--               packed by the caller, and what the call came to (result)
--   P hx        list: sequence:tag:count:now of each block in the stream, to trim it without reading
--   P m hseq    the sequence of the newest block, and its tag (htag)
--   P m hfloor  sequence:tag of the newest block that was taken away
--   P m hcount  how many changes the stream has
-- A call that is to be recorded has A.changes: tag, begun, count (of changes besides events), keep
-- (milliseconds), most (changes), and of a batch windows (places in A.windows) and absolute.
local TRIMMED = 16  -- blocks that one call takes away at most: more than it adds

local function trim(c, now, total)
  for _ = 1, TRIMMED do
    local oldest = call('LINDEX', P .. 'hx', 0)
    local sequence, tag, count, at = string.match(oldest, '^(%d+):(%d+):(%d+):(-?%d+)$')
    local expired = tonumber(at) < now - c.keep or total > c.most
    if not expired or call('LLEN', P .. 'hx') == 1 then break end
    call('LPOP', P .. 'hx')
    call('XDEL', P .. 'h', sequence .. '-0')
    call('HSET', KEYS[1], 'hfloor', sequence .. ':' .. tag)
    total = total - tonumber(count)
  end
  return total
end

-- Keeps no block of those before: the board kept none for a while, and whoever read to the end must
-- not go on as if nothing had happened since.
local function restart(tag)
  call('UNLINK', P .. 'h', P .. 'hx')
  local sequence = text(call('HINCRBY', KEYS[1], 'hseq', 1))
  call('HSET', KEYS[1], 'htag', tag, 'hcount', '0', 'hfloor', sequence .. ':' .. tag)
end

-- Appends a block of so many changes to the stream.
local function record(count, now, result)
  local c = A.changes
  local sequence = text(call('HINCRBY', KEYS[1], 'hseq', 1))
  local known = call('HMGET', KEYS[1], 'htag', 'hcount')
  local before, total = known[1] or '0', tonumber(known[2] or '0')
  call('XADD', P .. 'h', sequence .. '-0', 'tag', c.tag, 'before', before, 'count', text(count),
       'now', text(now), 'begun', c.begun, 'result', result)
  local entry = table.concat({sequence, c.tag, text(count), text(now)}, ':')
  if call('RPUSH', P .. 'hx', entry) == 1 then  -- it is the first, or the others have expired
    total = 0
    call('HSET', KEYS[1], 'hfloor', text(tonumber(sequence) - 1) .. ':' .. before)
  end
  total = trim(c, now, total + count)
  call('HSET', KEYS[1], 'htag', c.tag, 'hcount', text(total))
  if c.expires then
    call('PEXPIRE', P .. 'h', text(c.keep))
    call('PEXPIRE', P .. 'hx', text(c.keep))
  end
end
