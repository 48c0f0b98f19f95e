-- The clearing of a board: all members are removed from a shard, with their data, and the rest stays.
--
--   P m clearing  while this shard is being cleared: the version of the board that contains this
--                 clearing. Meanwhile P m ver is absent, so that every other call is refused
--   P m cleared   <version>:<tag> of the last clearing that is complete in this shard
--   P m clears    the number of complete clearings. Each block of changes has this number as it
--                 was then, so that a reader who merges the blocks of several shards can put those
--                 from before a clearing before it
--   P m cut       the last entry of the feed when the shard was cleared
--   P m fence     in the first shard: the version of the board that a process is about to clear or to
--                 delete. No period is recorded as closed at this version
--   P m cblocks   while the first shard is being cleared: how many of the blocks of this clearing are recorded
-- A.cleared describes the last clearing of the board: version, tag; restored (whether it restores a
-- removed board, whose windows count as never refreshed); cuts (in the label replica: P m cut
-- of each shard); in the first shard of a board that keeps changes also blocks (some of the blocks
-- to be recorded, as A.changes), after (how many blocks come before them), more (whether others
-- follow) and time. It is made from the definition of the board, so any process can complete a
-- clearing. A removed board is restored by a clearing, whose blocks are those of the restoration.
local clearing = {START = '0-0'}        -- the functions that clear a board; START is the place before the first entry of a feed

-- Removes a share of the rankings of a shard. Returns whether none are left.
function clearing.unlink_share()
  local most = head.sizes and 1 or 100
  local some = rankings_of(call('SPOP', P .. 'i', text(most)))
  for _, ranked in ipairs(some) do
    if not unlink_ranking(ranked) then call('SADD', P .. 'i', ranked.name) end
  end
  if #some == most then return false end
  for _, w in ipairs(A.windows) do
    local rolling = rolling_window(w)
    if rolling and not unlink_window(rolling) then return false end
  end
  return close_scopes()
end

-- Returns whether this clearing, or a later one, is complete in this shard.
function clearing.is_complete(cleared)
  local stored = call('HGET', KEYS[1], 'cleared') or '0:'
  local version = tonumber(string.match(stored, '^%d+'))
  return version > cleared.version or stored == text(cleared.version) .. ':' .. cleared.tag
end

-- Returns whether the shard is being cleared by a later version of the board than the caller knows.
function clearing.is_ahead(version)
  return tonumber(call('HGET', KEYS[1], 'clearing') or '0') > version
end

-- Returns the two parts of a stored version: its number, and the unique id of the board.
function clearing.number_and_id(version)
  local number, id = string.match(version, '^(%d+)(.*)$')
  return tonumber(number), id
end

-- Returns whether the shard has a later version of the board than the caller: the board was restored,
-- or restored and removed again.
function clearing.is_superseded()
  local own, own_id = clearing.number_and_id(B.version)
  for _, field in ipairs({'ver', 'removed'}) do
    local number, id = clearing.number_and_id(call('HGET', KEYS[1], field) or '0')
    if number > own and id == own_id then return true end
  end
  return clearing.is_ahead(own)
end

-- Does a share of a clearing. Returns whether it is complete.
function clearing.advance(cleared)
  if clearing.is_complete(cleared) then return true end
  call('HDEL', KEYS[1], 'ver')
  if call('HGET', KEYS[1], 'clearing') ~= text(cleared.version) then
    call('HDEL', KEYS[1], 'cblocks')
    call('HSET', KEYS[1], 'clearing', text(cleared.version))
  end
  if call('HEXISTS', KEYS[1], 'cblocks') == 0 then
    if not clearing.unlink_share() then return false end
    call('UNLINK', P .. 'i', P .. 'x', P .. 'f', P .. 'gd')
    tracking.stop()
    for name in pairs(B.refreshed or {}) do
      call('HDEL', KEYS[1], 'waits:' .. name, 'build:' .. name, 'next:' .. name, 'some:' .. name, 'empty:' .. name)
    end
    if cleared.restored then
      for name in pairs(B.refreshed or {}) do
        call('HDEL', KEYS[1], 'shown:' .. name, 'noted:' .. name, 'moved:' .. name)
      end
    end
    note_list_change(append_change('cleared', ''))
    for i, cut in ipairs(cleared.cuts or {}) do call('HSET', KEYS[1], 'fed:' .. text(i - 1), cut) end
    call('HINCRBY', KEYS[1], 'clears', '1')
  end
  if cleared.blocks and not clearing.record_blocks(cleared) then return false end
  call('HSET', KEYS[1], 'cleared', text(cleared.version) .. ':' .. cleared.tag,
       'cut', call('HGET', KEYS[1], 'told') or clearing.START)
  call('HDEL', KEYS[1], 'clearing', 'cblocks')
  return true
end

-- Records some of the blocks of a clearing, unless another process has recorded them. Returns
-- whether all blocks are recorded.
function clearing.record_blocks(cleared)
  local done = tonumber(call('HGET', KEYS[1], 'cblocks') or '0')
  local others = A.changes
  while done >= cleared.after and cleared.blocks[done - cleared.after + 1] do
    A.changes = cleared.blocks[done - cleared.after + 1]
    record(1, cleared.time, '')
    done = done + 1
  end
  A.changes = others
  call('HSET', KEYS[1], 'cblocks', text(done))
  return not cleared.more and done >= cleared.after + #cleared.blocks
end

-- Returns how many blocks of the clearing that is being completed are recorded.
function clearing.recorded_blocks() return tonumber(call('HGET', KEYS[1], 'cblocks') or '0') end

clearing.ops = {}

-- Lets the shard refuse all calls until `open` has cleared it, unless this clearing is complete
-- already.
function clearing.ops.suspend()
  if not clearing.is_superseded() and not clearing.is_complete(A.cleared) then
    call('HDEL', KEYS[1], 'ver')
    call('HSET', KEYS[1], 'clearing', text(A.cleared.version))
  end
  return {'done'}
end

-- Sets the fence, in the first shard. The caller must know all closed periods (closings). Returns
-- 1, or 0, without a fence, if a closed period is not sealed yet.
function clearing.ops.fence()
  if tonumber(call('HGET', KEYS[1], 'closings') or '0') ~= A.closings then return {'closings_moved'} end
  for _, stored in ipairs(call('HVALS', P .. 'cl')) do
    if sub(stored, 1, 1) == 'c' then return {'done', 0} end
  end
  call('HSET', KEYS[1], 'fence', B.version)
  return {'done', 1}
end
