-- The clearing of a board: all members are removed from a shard, with their data, and the rest stays.
--
--   P m clearing  while this shard is being cleared: the version of the board that contains this
--                 clearing. Meanwhile P m ver is absent, so that every other call is refused
--   P m cleared   <version>:<tag> of the last clearing that is complete in this shard
--   P m clears    the number of complete clearings. Each block of changes has this number as it
--                 was then, so that a reader who merges the blocks of several shards can put those
--                 from before a clearing before it
--   P m cut       the last entry of the feed when the shard was cleared
--   P m fence     in the first shard: the version of the board that a process is about to clear. No period
--                 is recorded as closed at this version
-- A.cleared describes the last clearing of the board: version, tag; cuts (in the label replica: P m cut
-- of each shard); changes and time (in the first shard: the block to be recorded). It is made from
-- the definition of the board, so any process can complete a clearing.
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

-- Does a share of a clearing. Returns whether it is complete.
function clearing.advance(cleared)
  if clearing.is_complete(cleared) then return true end
  call('HDEL', KEYS[1], 'ver')
  call('HSET', KEYS[1], 'clearing', text(cleared.version))
  if not clearing.unlink_share() then return false end
  call('UNLINK', P .. 'i', P .. 'x', P .. 'f', P .. 'gd')
  tracking.stop()
  for name in pairs(B.refreshed or {}) do
    call('HDEL', KEYS[1], 'waits:' .. name, 'build:' .. name, 'next:' .. name, 'some:' .. name, 'empty:' .. name)
  end
  note_list_change(append_change('cleared', ''))
  for i, cut in ipairs(cleared.cuts or {}) do call('HSET', KEYS[1], 'fed:' .. text(i - 1), cut) end
  call('HSET', KEYS[1], 'cleared', text(cleared.version) .. ':' .. cleared.tag,
       'cut', call('HGET', KEYS[1], 'told') or clearing.START)
  call('HINCRBY', KEYS[1], 'clears', '1')
  call('HDEL', KEYS[1], 'clearing')
  if cleared.changes then
    local others = A.changes
    A.changes = cleared.changes
    record(1, cleared.time, '')
    A.changes = others
  end
  return true
end

clearing.ops = {}

-- Lets the shard refuse all calls until `open` has cleared it, unless this clearing is complete
-- already.
function clearing.ops.suspend()
  if not clearing.is_complete(A.cleared) then
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
