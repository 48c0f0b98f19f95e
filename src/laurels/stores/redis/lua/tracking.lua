-- Tracks what the writes of a board change, while the board is copied to another store. The copy is
-- then brought up to date with the tracked changes only (see tracked.lua).
--
--   P m tracking  absent if the board is not copied, else <state>:<number>:<process>:<owner>. In the state
--                 `on`, writes are tracked; in the state `blocked`, they are refused. <number> is the
--                 number of the copy. <process> is the server process in which the copy was begun: a
--                 promoted replica may lack tracked changes. <owner> is the random token of the move;
--                 earlier releases stored no owner
--   P m copies    the number of copies that were begun
--   P w           set: <scope>\31<member> of each change
--   P wq          sorted set: the event ids that were added, as in P q
-- A change is removed from P w before the rows of its member are read. So if the rows change again, that
-- is tracked again.
tracking.most = 2000000  -- so many changes are tracked if no process takes them; then tracking ends

-- The operations that change rows, data, positions or who is hidden.
tracking.is_write = {
  remove_member = true, remove_from_scopes = true, set_data = true, set_position = true, mend = true,
  freeze = true, record_close = true, record_floors = true, record_seal = true,
  hide = true, take_up = true, record_hidden = true,
}

-- Returns the reply that refuses a write while the writes of the board are blocked.
function tracking.refusal_reply()
  return tracking.state and sub(tracking.state, 1, 7) == 'blocked' and {'board_moving'} or nil
end

function tracking.stop()
  call('HDEL', KEYS[1], 'tracking')
  call('UNLINK', P .. 'w', P .. 'wq')
  tracking.state = false
end

-- Tracks a change of the rows of members in a scope, or of their data.
function tracking.note(scope, members)
  if not tracking.state then return end
  local changes = {}
  for i, member in ipairs(members) do changes[i] = scope .. '\31' .. member end
  send('SADD', P .. 'w', changes)
  if call('SCARD', P .. 'w') + call('ZCARD', P .. 'wq') > tracking.most then tracking.stop() end
end

-- Tracks the changes of a batch: the members of its stores, and the event ids that it added.
function tracking.note_batch(stores, added)
  local seen = {}
  for _, store in ipairs(tracking.state and stores or {}) do
    local scope = store.scope and store.scope.name or ''
    if not seen[scope] then tracking.note(scope, store.names) end
    seen[scope] = true
  end
  if tracking.state then send('ZADD', P .. 'wq', added) end
end
