-- The closing of periods. A closed period is frozen: nothing changes its rankings any more.
--
--   P m closed:<w>    the newest instance of a window that is frozen in this shard; every earlier one is
--                     frozen as well
-- In the first shard of a board also:
--   P cl              hash: <window>:<instance> -> a letter, and the record of the period as the
--                     caller encoded it. The letter is 'c' for a closed period; for a sealed one it
--                     is 'e', and 's' once the caller has noted that the keys of the period expire
--   P m recorded:<w>  the instance up to which the closing of a window is recorded
--   P m trimmed:<w>   the newest instance whose record has left P cl
--   P m noted         the number of the last note of the board's ledger that was recorded
--   P m closings      how often any of these has changed. A caller with another number has an outdated copy
-- All shards freeze a period before the first one records that it is closed. So the record of a
-- period in P cl describes its final standings, and a process that fails in between leaves no shard
-- with other standings.
--
-- Ops of `operate`:
--   freeze (floors, now)    freezes the windows up to these instances; in a label replica this only
--     keeps their rankings from expiring
--   load_closings (names)  returns P m closings, P cl as a list, and for each window the fields
--     recorded: and trimmed:, each false if it is missing
--   record_close (window, instance, record)   returns 1, or 0 if the closing of the period is recorded;
--     refused while the version of the board is fenced, see clearing.lua
--   record_floors (floors)  records, by window, the instance up to which no period needs a record any more
--   record_seal (name, before, record, trimmed {names}, floors)   replaces the record `before` of a
--     period, and removes the records `trimmed`; returns 0 if the period has another record
--   record_expiry (name)  notes that the keys of a sealed period expire
--   set_stale (now)  lets all scopes be advanced again, since a period that is no longer kept was sealed
--   record_note (number, count)  adds A.changes, a block of `count` changes, which the board's ledger has
--     noted under a number; returns 0 if this or a later note was recorded before
--   restore_closings (first, records, floors, trimmed)   writes the records of a copied board, and the
--     fields recorded: and trimmed:. With `first` it first removes the records of an earlier attempt
--   take_lease (token, ms)  gives the caller the lease to seal periods of this board for some milliseconds,
--     or ends its lease if ms is 0; returns 0 if another caller has it. P cs is the token of its owner
-- `floors` are instances by window.
closing.gates = {}

-- Returns the newest frozen instance of a window, false if there is none.
function closing.gate(window)
  if closing.gates[window] == nil then
    closing.gates[window] = tonumber(call('HGET', KEYS[1], 'closed:' .. window) or nil) or false
  end
  return closing.gates[window]
end

-- Returns whether a ranking is frozen.
function closing.is_frozen(ranked)
  if not B.closes then return false end
  local gate = closing.gate(window_of(ranked.window))
  return gate and (ranked.step or ranked.instance) <= gate
end

-- Returns whether queries of a frozen ranking are answered by the archive alone. Then the ranking in
-- this shard is no longer read, and a member may be removed from it. A.archived has, by window, the newest instance of which this is true.
function closing.is_archived(ranked)
  local newest = A.archived and A.archived[window_of(ranked.window)]
  return newest and ranked.instance <= newest
end

-- Returns the reply that refuses a batch with events in a frozen period, else nil. A label replica
-- refuses none, since its shards have already accepted the events.
function closing.refusal_reply(stores)
  if not B.closes or A.spans then return nil end
  for _, store in ipairs(stores) do
    if store.ranked and closing.is_frozen(store) then return {'period_closed', A.now} end
    local rolling = store.rolling
    if rolling and closing.is_frozen({window = rolling.name, instance = rolling.running_step or rolling.running}) then
      return {'period_closed', A.now}
    end
  end
end

-- Sets each field <prefix><window> to its instance in `floors`, if that is later. Returns whether
-- any field has changed.
function closing.raise(prefix, floors)
  local changed = false
  for window, instance in pairs(floors) do
    local stored = tonumber(call('HGET', KEYS[1], prefix .. window) or nil)
    if not stored or stored < instance then
      call('HSET', KEYS[1], prefix .. window, text(instance))
      changed = true
    end
  end
  return changed
end

function closing.note_change(name)
  call('HINCRBY', KEYS[1], 'closings', '1')
  append_change('closing', name)
end

-- Marks all scopes as stale, even those that were advanced at this very time. For this it moves
-- `since` past the time by a fraction of a millisecond only, so that a scope that is advanced now
-- is stale again after the next boundary.
function closing.set_stale(now)
  for _, name in ipairs({'now', 'since'}) do
    now = math.max(now, tonumber(call('HGET', KEYS[1], name) or '-1e300'))
  end
  call('HSET', KEYS[1], 'since', text(now + 1 / 1024))
end

closing.ops = {}

function closing.ops.freeze()
  closing.raise('closed:', A.floors)
  local now = tonumber(call('HGET', KEYS[1], 'now') or '-1e300')
  if A.now > now then call('HSET', KEYS[1], 'now', text(A.now)) end
  return {'done'}
end

function closing.ops.load_closings()
  local fields = {}
  for _, window in ipairs(A.names) do
    fields[#fields + 1], fields[#fields + 2] = 'recorded:' .. window, 'trimmed:' .. window
  end
  local changes = call('HGET', KEYS[1], 'closings') or '0'
  return {'done', {changes, call('HGETALL', P .. 'cl'), fetch('HMGET', KEYS[1], fields)}}
end

function closing.ops.record_close()
  if call('HGET', KEYS[1], 'fence') == B.version then return {'definition_outdated'} end
  if not closing.raise('recorded:', {[A.window] = A.instance}) then return {'done', 0} end
  local name = A.window .. ':' .. text(A.instance)
  call('HSET', P .. 'cl', name, A.record)
  closing.note_change(name)
  if A.changes then record(1, A.time, '') end
  return {'done', 1}
end

function closing.ops.record_floors()
  if closing.raise('recorded:', A.floors) then closing.note_change('') end
  return {'done'}
end

function closing.ops.record_note()
  local noted = tonumber(call('HGET', KEYS[1], 'noted') or '0')
  if A.number <= noted then return {'done', 0} end
  call('HSET', KEYS[1], 'noted', text(A.number))
  if A.changes then record(A.count, A.time, '') end
  return {'done', 1}
end

function closing.ops.restore_closings()
  if A.first then call('DEL', P .. 'cl') end
  send('HSET', P .. 'cl', A.records)
  closing.raise('recorded:', A.floors)
  closing.raise('trimmed:', A.trimmed)
  closing.note_change('')
  return {'done'}
end

function closing.ops.take_lease()
  local owner = call('GET', P .. 'cs')
  if owner and owner ~= A.token then return {'done', 0} end
  if A.ms > 0 then call('SET', P .. 'cs', A.token, 'PX', text(A.ms)) else call('DEL', P .. 'cs') end
  return {'done', 1}
end

function closing.ops.record_seal()
  local stored = call('HGET', P .. 'cl', A.name) or ''
  if string.gsub(stored, '^e', 's') ~= A.before then return {'done', 0} end
  local expires = sub(stored, 1, 1) == 's'
  call('HSET', P .. 'cl', A.name, expires and A.record or string.gsub(A.record, '^s', 'e'))
  send('HDEL', P .. 'cl', A.trimmed)
  closing.raise('trimmed:', A.floors)
  closing.note_change(A.name)
  if A.changes then record(1, A.time, '') end
  return {'done', 1}
end

function closing.ops.record_expiry()
  local stored = call('HGET', P .. 'cl', A.name) or ''
  if sub(stored, 1, 1) == 'e' then call('HSET', P .. 'cl', A.name, 's' .. sub(stored, 2)) end
  return {'done'}
end

function closing.ops.set_stale()
  closing.set_stale(A.now)
  return {'done'}
end
