-- operate(op, board, …) -> {'done', …}
-- All operations on a board other than counting: opening, passes, removal, member data and so on.
--
-- ARGV[1]  msgpack: op, board, now, windows (the rolling ones: {name, steps, running}), and the
--   arguments of the op. If a window is archived at boundaries, its item also has `archived`, the
--   steps at whose ends it is archived, within the ranges of steps `named`; if a window is at a step in
--   none of them, the reply is 'boundaries_needed' with the steps of such windows. The ops with their arguments:
--   open (cleared: see clearing.lua); end_changes ('until', expires); close (expires, forgotten); forget_changes; rotate_step (window, limit);
--   advance_pass (window, limit); remove_member (member, removed: how many rankings had it in scopes,
--   archived: see closing.lua; its result counts the data of the member as well);
--   advance_head (limit); extend_head (name, wanted); walk (name, cursor, limit);
--   set_data (member, text or false, follows: {text or false} or nil); set_position (position, follows: as
--   in batch.lua); confirm (sink, sequence or false); keys (cursor, empty: include rankings without
--   members); drop (names); expire (names, lives or nil, sealed, dated, earliest: see `expire` in shard.lua);
--   expire_board (forms, gone); forget (before); hide (member, hiding or false, at); take_up (all or nil, was {own, all}, at);
--   forget_hidden (member, at); hide and take_up have two more arguments: earlier (more changes to record), elsewhere (blocks
--   that other shards record); record_hidden (id); hidings; restore_hidings (first, hidings);
--   wake_heads; for others see scopes.lua, refresh.lua, mend.lua, restore.lua, tracked.lua, closing.lua, clearing.lua,
--   erasing.lua and hidden_entries.lua
-- With A.is_kept the call is for a removed board whose state is kept, so that it can be restored. It is
-- refused unless the board was removed in the caller's version (P m removed).
-- A call of rotate_step, advance_pass or close does a share of the work, and returns whether the
-- work is complete. The operations in this file concern the rankings of all events; the operations
-- in scopes.lua concern the scopes.
local op = A.op
local ops = {  -- the operations; those of this file are below
  sweep = sweep, advance_scopes = advance_scopes, remove_from_scopes = remove_from_scopes,
  keys_of_scopes = keys_of_scopes, expire_scopes = expire_scopes, refresh = refresh, mend = mend,
  restore_rows = restore_rows, restore_ids = restore_ids, restore_data = restore_data,
  restore_state = restore_state,
}
local RANKINGS_MOST = 100  -- the maximum number of rankings that one call lists
local HIDDEN_MOST = 2000   -- after reading this many members, `list_hidden` updates no further ranking

local function open_windows()
  local windows = {}
  for _, w in ipairs(A.windows) do windows[#windows + 1] = rolling_window(w) end
  return windows
end

-- Registers a board or its changed definition. A version is a number and the unique id of the board:
-- a different id means that the server was emptied since, or that an earlier release stored the
-- version without an id.
-- A removed board stays removed, whatever a process with an outdated copy calls. A later version than
-- the one that was removed restores it.
-- Returns four values: whether a clearing that the definition contains is complete (0: a further
-- call has to continue it), whether there is a fence at the caller's version, where the feed was
-- cut, and how many blocks of an incomplete clearing are recorded; see clearing.lua.
function ops.open()
  local new, new_id = clearing.number_and_id(B.version)
  local removed = call('HGET', KEYS[1], 'removed')
  local stays = call('HEXISTS', KEYS[1], 'until') == 1
  if removed then stays = clearing.number_and_id(removed) >= new end
  if stays or clearing.is_ahead(new) then return {'done', {1, 0, clearing.START, 0}} end
  if A.cleared and not clearing.advance(A.cleared) then
    return {'done', {0, 0, clearing.START, clearing.recorded_blocks()}}
  end
  if removed then ops.restore() end
  local version = call('HGET', KEYS[1], 'ver') or '0'
  local stored, id = clearing.number_and_id(version)
  if stored < new or id ~= new_id then
    call('HSET', KEYS[1], 'ver', B.version)
    call('HDEL', KEYS[1], 'fence')
    local now = call('HGET', KEYS[1], 'now')
    if stored > 0 and now then closing.set_stale(tonumber(now)) end
    head.change(rankings_of(call('SMEMBERS', P .. 'i')))
    if A.restart then restart(A.restart) end
    if A.changes then record(1, A.time, '') end
  end
  local fields = call('HMGET', KEYS[1], 'fence', 'cut')
  return {'done', {1, fields[1] == B.version and 1 or 0, fields[2] or clearing.START, 0}}
end

-- Lets the changes of a removed board go on. Its members are removed by then. The board takes up the
-- members hidden on all boards anew, so that this is recorded after its restoration.
function ops.restore()
  call('HDEL', KEYS[1], 'removed', 'until', 'hend')
  if call('EXISTS', P .. 'hs') == 1 then
    call('PERSIST', P .. 'h')
    call('PERSIST', P .. 'hx')
  end
  if call('HEXISTS', KEYS[1], 'hid') == 1 then
    local own = ops.parts_of_hid()
    ops.set_hid(own + 1, 0)
  end
end

-- Removes the board. The first call removes its version, so all other calls are refused from then on.
-- With A.is_kept this leaves P m, p, cl, hh and hs, from which the board can be restored. They are
-- removed only by a call with A.forgotten.
function ops.close()
  local stays = not A.is_kept and not A.forgotten and call('HEXISTS', KEYS[1], 'removed') == 1
  if stays or clearing.is_superseded() then return {'done', 1} end
  call('HDEL', KEYS[1], 'ver')
  if A.is_kept then call('HSET', KEYS[1], 'removed', B.version) end
  if not clearing.unlink_share() then return {'done', 0} end
  call('UNLINK', P .. 'i', P .. 'q', P .. 'x', P .. 's', P .. 'f', P .. 'gd', P .. 'hp', P .. 'w', P .. 'wq', P .. 'cs')
  local has_changes = call('HEXISTS', KEYS[1], 'until') == 1
  if not has_changes then call('UNLINK', P .. 'h', P .. 'hx') end
  hidden_entries.unlink()
  if A.is_kept then
    call('HDEL', KEYS[1], 'tracking')
    for _, name in ipairs({'m', 'p', 'cl', 'hh', 'hs'}) do call('PERSIST', P .. name) end
    return {'done', 1}
  end
  call('UNLINK', P .. 'p', P .. 'hs', P .. 'hh', P .. 'cl')
  if not has_changes then
    call('UNLINK', KEYS[1])
  else
    call('HDEL', KEYS[1], 'removed')
    if A.expires then call('PEXPIREAT', KEYS[1], call('HGET', KEYS[1], 'until')) end
  end
  return {'done', 1}
end

-- Removes the changes of a deleted board. Does nothing if the board was restored meanwhile.
function ops.forget_changes()
  if call('HEXISTS', KEYS[1], 'until') == 0 or clearing.is_superseded() then return {'done'} end
  call('UNLINK', P .. 'h', P .. 'hx')
  if call('HEXISTS', KEYS[1], 'removed') == 0 then call('UNLINK', KEYS[1]) end
  return {'done'}
end

-- Rotates a window to the running step.
function ops.rotate_step()
  local rolling = rolling_window(A.window)
  if rolling and rolling.running_step < A.window.running then note_time() end
  return {'done', rotate_to(A.window, A.window.running, A.limit) and 1 or 0}
end

-- Continues the pass of a window. Returns about how many members are left.
function ops.advance_pass()
  local rolling = rolling_window(A.window)
  if not rolling then return {'done', 0} end
  local before = tally(rolling.name, rolling.oldest_step - 1)
  if continue_pass(rolling, A.limit) then return {'done', 0} end
  local left = call('HLEN', before)
  if rolling.oldest_tally then left = left + call('HLEN', rolling.oldest_tally) end
  return {'done', math.max(1, left)}
end

function ops.remove_member()
  local removed = 0
  for _, ranked in ipairs(rankings_of(call('SMEMBERS', P .. 'i'))) do
    removed = removed + remove_from(ranked)
  end
  for _, rolling in ipairs(open_windows()) do removed = removed + remove_from_window(rolling) end
  local carried = call('HDEL', P .. 'x', A.member)
  note_list_change(append_change('removed', A.member))
  tracking.note('', {A.member})
  if A.changes and removed + carried + A.removed > 0 then record(1, A.time, '') end
  return {'done', removed + (A.archived and carried or 0)}
end

function ops.set_data()
  if A.follows and call('HGET', P .. 'x', A.member) ~= A.follows[1] then
    return {'data_moved', A.member}
  end
  if A.text then call('HSET', P .. 'x', A.member, A.text) else call('HDEL', P .. 'x', A.member) end
  note_list_change(append_change('data', A.member))
  tracking.note('', {A.member})
  if A.changes then record(1, A.time, '') end
  return {'done'}
end

function ops.set_position()
  local reply = position_conflict()
  if reply then return reply end
  call('HSET', P .. 'p', unpack(A.position))
  if A.changes then record(1, A.time, '') end
  return {'done'}
end

-- Stores the sequence that a sink has confirmed; false means that the sink is no longer registered.
function ops.confirm()
  if A.sequence then
    call('HSET', P .. 'hs', A.sink, text(A.sequence))
    call('PERSIST', P .. 'h')
    call('PERSIST', P .. 'hx')
  else
    call('HDEL', P .. 'hs', A.sink)
  end
  return {'done'}
end

function ops.keys()
  local names, cursor = scan_share('SSCAN', P .. 'i', A.cursor, RANKINGS_MOST, RANKINGS_MOST)
  local nonempty = {}
  for _, ranked in ipairs(rankings_of(names)) do
    if A.empty or not is_empty(ranked) then nonempty[#nonempty + 1] = ranked.name end
  end
  for _, each in ipairs(cursor == '0' and open_windows() or {}) do
    if A.empty or call('EXISTS', each.live.r) == 1 then
      nonempty[#nonempty + 1] = each.name .. ':' .. text(each.running_step)
    end
  end
  return {'done', {nonempty, cursor}}
end

-- Sets the expiry of rankings of periods, by `lives` if it is present, otherwise by the definition.
-- Returns how many rankings are done, in the order of A.names.
function ops.expire()
  for i, ranked in ipairs(rankings_of(A.names)) do
    expire(ranked, ranked.window, ranked.instance, A.lives)
    local stays = not A.sealed and closing.is_frozen(ranked)
    if has_head(ranked) and A.dated then stays = call('TTL', P .. 'g:' .. ranked.name) < 0 end
    if not stays and has_head(ranked) and not head.expire(ranked, A.lives) then return {'done', i - 1} end
  end
  return {'done', #A.names}
end

-- Makes two kinds of keys expire when the board is removed: those of the board as a whole, and
-- those of its rolling windows over all events.
function ops.expire_board()
  for _, each in ipairs(open_windows()) do expire_window(each) end
  local names = {'i', 'q', 'x', 's', 'f', 'o', 'gd', 'hp', 'hm', 'hc', 'hr'}
  if not B.closes then  -- otherwise the board can be restored from these keys, however late it is removed
    for _, name in ipairs({'m', 'p', 'hs', 'cl', 'hh'}) do names[#names + 1] = name end
  end
  for _, form in ipairs(A.forms) do names[#names + 1] = 'l:' .. form end
  if call('EXISTS', P .. 'hs') == 1 then names[#names + 1], names[#names + 2] = 'h', 'hx' end
  for _, name in ipairs(names) do call('EXPIREAT', P .. name, text(gone)) end
  return {'done'}
end

-- Removes rankings in the order of A.names. Returns how many are removed; the caller continues with
-- the rest.
function ops.drop()
  for i, ranked in ipairs(rankings_of(A.names)) do
    if not unlink_ranking(ranked) then return {'done', i - 1} end
    call('SREM', P .. 'i', ranked.name)
    if has_head(ranked) and i < #A.names then return {'done', i} end
  end
  return {'done', #A.names}
end

-- Does a share of the due passes over rankings with a head. Returns about how many members are
-- left.
function ops.advance_head()
  local left = 0
  for _, ranked in ipairs(rankings_of(call('SMEMBERS', P .. 'gd'))) do
    left = left + (A.limit > 0 and head.advance(ranked, A.limit) or 1)
    A.limit = left > 0 and 0 or A.limit
  end
  return {'done', left}
end

-- Returns some members of a ranking with a head, their words, and the next cursor.
function ops.walk()
  local members, forms, cursor = head.walk(rankings_of({A.name})[1], tonumber(A.cursor), A.limit)
  if not members then return {'passes_not_ready'} end
  local w = {}
  for i = 1, words do w[i] = {} end
  for slot, form in ipairs(forms) do decode_form(form, w, slot, words) end
  return {'done', {members, w, text(cursor)}}
end

-- Removes some of the event ids that are no longer remembered. Returns how many it removed.
function ops.forget()
  local old = call('ZRANGEBYSCORE', P .. 'q', '-inf', text(A.before), 'LIMIT', '0', '1000')
  send('ZREM', P .. 'q', old)
  return {'done', #old}
end

-- Ends the changes of a board that is deleted, and keeps them until A['until'], in milliseconds.
-- From then on all calls that write to the board are refused. One shard records the deletion.
function ops.end_changes()
  if clearing.is_superseded() then return {'done'} end
  call('HDEL', KEYS[1], 'ver')
  if A.is_kept then call('HSET', KEYS[1], 'removed', B.version) end
  call('HSET', KEYS[1], 'until', text(A['until']))
  if A.changes and call('HSETNX', KEYS[1], 'hend', A.changes.tag) == 1 then
    record(1, A.time, '')
  end
  for _, name in ipairs(A.expires and {'h', 'hx', 'm'} or {}) do
    if name ~= 'm' or not A.is_kept then call('PEXPIREAT', P .. name, text(A['until'])) end
  end
  return {'done'}
end

-- Returns the two numbers of a version of the hidden members.
function ops.parts_of_hid()
  local own, all = string.match(call('HGET', KEYS[1], 'hid') or '0:0', '^(%d+):(%d+)$')
  return tonumber(own), tonumber(all)
end

-- Stores a version of the hidden members, and notes that all lists of the board may have changed.
function ops.set_hid(own, all)
  call('HSET', KEYS[1], 'hid', text(own) .. ':' .. text(all))
  note_list_change(append_change('hidden', A.member or ''))
end

-- Records who was hidden or shown: here, or for other shards in A.elsewhere.
function ops.record_hidings()
  local last, id = A.changes, tonumber(call('HGET', KEYS[1], 'hidn') or '0')
  for _, changes in ipairs(A.earlier or {}) do
    A.changes = changes
    record(1, A.time, '')
  end
  A.changes = last
  if last then record(1, A.time, '') end
  for _, block in ipairs(A.elsewhere or {}) do
    id = math.max(id + 1, A.at)
    call('HSET', P .. 'hp', text(id), block)
    call('HSET', KEYS[1], 'hidn', text(id))
  end
end

-- Records in a member's shard that the member was hidden or shown again, unless this was done
-- before.
function ops.record_hidden()
  if tonumber(call('HGET', KEYS[1], 'hidt') or '0') < A.id then
    call('HSET', KEYS[1], 'hidt', text(A.id))
    record(1, A.time, '')
  end
  return {'done'}
end

-- Hides a member, or shows it again. The caller must know the stored version of the hidden members. A version
-- is never less than the time, so that a server that has lost changes does not give a version twice.
function ops.hide()
  if (call('HGET', KEYS[1], 'hid') or '') ~= (A.hid or '') then return {'definition_outdated'} end
  if A.hiding then call('HSET', P .. 'hh', A.member, A.hiding) else call('HDEL', P .. 'hh', A.member) end
  local own, all = ops.parts_of_hid()
  ops.set_hid(math.max(own + 1, A.at), all)
  ops.record_hidings()
  return {'done'}
end

-- Records which members are hidden or shown by a change of the list of members hidden on all boards,
-- and stores A.all, the version of this list. Without A.all it only records them, since further calls
-- for the same change follow. A.was has the version of the board's own list and of that list, as the
-- caller has read them.
function ops.take_up()
  local own, all = ops.parts_of_hid()
  if A.was[1] ~= own or A.was[2] ~= all then return {'definition_outdated'} end
  ops.record_hidings()
  if A.all and all ~= A.all then ops.set_hid(own, A.all) end
  return {'done'}
end

-- Removes a member from the hidden members of a removed board. Nothing is recorded.
function ops.forget_hidden()
  if call('HDEL', P .. 'hh', A.member) == 1 then
    local own, all = ops.parts_of_hid()
    ops.set_hid(math.max(own + 1, A.at), all)
  end
  return {'done'}
end

-- Returns the version of the hidden members, and those that the board itself hides, with their
-- hidings.
function ops.hidings()
  local own, all = ops.parts_of_hid()
  return {'done', {own, all, call('HGETALL', P .. 'hh')}}
end

-- Writes hidden members of a copied board. The first call removes those of an earlier attempt.
function ops.restore_hidings()
  if A.first then call('UNLINK', P .. 'hh') end
  hidden_entries.unlink()
  call('HDEL', KEYS[1], 'hid')
  if #A.hidings > 0 then call('HSET', KEYS[1], 'hid', '1:0') end
  send('HSET', P .. 'hh', A.hidings)
  return {'done'}
end

-- Lets readers leave out the hidden members of a version; see hidden_entries.lua.
function ops.list_hidden()
  if not hidden_entries.put_list(A.version, A.change, A.part) then return {'done', {0, 0}} end
  local done, limit = 0, HIDDEN_MOST
  for _, ranked in ipairs(rankings_of(A.names)) do
    if limit <= 0 then break end
    done, limit = done + 1, limit - hidden_entries.update(ranked)
  end
  return {'done', {1, done}}
end

-- Lets passes extend the head of a ranking to at least `wanted` entries.
function ops.extend_head()
  local ranked = rankings_of({A.name})[1]
  if has_head(ranked) then head.extend(ranked, A.wanted) end
  return {'done'}
end

-- Lets the passes look at all rankings with a head, since the number of hidden members has changed.
function ops.wake_heads()
  for _, ranked in ipairs(rankings_of(call('SMEMBERS', P .. 'i'))) do
    if has_head(ranked) then call('SADD', P .. 'gd', ranked.name) end
  end
  return {'done'}
end

-- The operations that compare versions in their own way.
local of_any_version = {
  open = true, end_changes = true, close = true, forget_changes = true, untrack = true, suspend = true,
}

head.use(call('HGET', KEYS[1], 'heads'))
if not of_any_version[op] and call('HGET', KEYS[1], A.is_kept and 'removed' or 'ver') ~= B.version then
  return cmsgpack.pack({'definition_outdated'})
end
if tracking.is_write[op] then
  tracking.state = call('HGET', KEYS[1], 'tracking')
  local reply = tracking.refusal_reply()
  if reply then return cmsgpack.pack(reply) end
end
A.answer = (ops[op] or tracking.ops[op] or closing.ops[op] or clearing.ops[op] or erasing.ops[op])()
return cmsgpack.pack(closing.needed and {'boundaries_needed', closing.needed} or A.answer)
