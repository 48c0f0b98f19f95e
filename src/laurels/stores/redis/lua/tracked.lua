-- Reads the changes that were tracked while a board is copied to another store (see tracking.lua). Ops of
-- `operate`:
--   track (owner)                 begins to track; returns the number of the copy. Refused while another
--                                 move tracks or blocks the board. Tracking that was begun before
--                                 the server was replaced does not count, but blocking does
--   block (number, owner)         blocks the writes of the board
--   untrack (owner)               ends tracking or blocking, unless it belongs to another move. Returns
--                                 whether the board is free now
--   owner ()                      returns the owner of the move that tracks or blocks the board: '' for a move
--                                 of an earlier release, false if there is none
--   seize (owner)                 transfers the tracking or blocking of the board to this owner,
--                                 whichever move has it. Writes stay blocked if they were; from
--                                 then on calls of the earlier owner are refused
--   tracked (number, owner)       returns how many changes and event ids are tracked
--   take_tracked (number, owner, limit)  removes some changes, and returns them
--   take_ids (number, owner, limit)      removes some added event ids, and returns {id in hex, time, …}
--   rows_of_members (parts)       returns the rows of members; `parts` are {scope, members}. The rows of a
--                                 structure are {window, instance, scope, running or false, is_tally,
--                                 members, columns}, as in restore.lua
--   clear_rows (scope, members, now)  removes members from all rankings and tallies of a scope of a copy,
--                                 and in the scope of all events also their data
-- Ops with a number are refused if this copy is no longer tracked for its owner.

tracking.ops = {}
do
  local function tracked_as(state, number)
    return state .. ':' .. number .. ':' .. process_of() .. ':' .. A.owner
  end

  -- Returns the state, the server process and the owner of a stored field; nil if the board is not copied.
  local function stored_tracking()
    local stored = call('HGET', KEYS[1], 'tracking')
    if not stored then return nil end
    local state, process, owner = string.match(stored, '^(%l+):%d+:(%x+):?(.*)$')
    return state, process, owner
  end

  -- Returns the reply that refuses the call if the copy is no longer tracked.
  local function tracking_lost()
    local stored = call('HGET', KEYS[1], 'tracking')
    if stored == tracked_as('on', A.number) or stored == tracked_as('blocked', A.number) then return nil end
    return {'tracking_lost'}
  end

  function tracking.ops.track()
    local state, process, owner = stored_tracking()
    if state and owner ~= A.owner and (state == 'blocked' or process == process_of()) then
      return {'board_moving'}
    end
    tracking.stop()
    local number = text(call('HINCRBY', KEYS[1], 'copies', '1'))
    call('HSET', KEYS[1], 'tracking', tracked_as('on', number))
    return {'done', number}
  end

  function tracking.ops.untrack()
    local state, _, owner = stored_tracking()
    if state and owner ~= A.owner then return {'done', 0} end
    tracking.stop()
    return {'done', 1}
  end

  function tracking.ops.owner()
    local state, _, owner = stored_tracking()
    return {'done', state and (owner or '') or false}
  end

  function tracking.ops.seize()
    local state = stored_tracking()
    if state then
      local number = text(call('HINCRBY', KEYS[1], 'copies', '1'))
      call('HSET', KEYS[1], 'tracking', tracked_as(state, number))
    end
    return {'done'}
  end

  function tracking.ops.block()
    local reply = tracking_lost()
    if reply then return reply end
    call('HSET', KEYS[1], 'tracking', tracked_as('blocked', A.number))
    return {'done'}
  end

  function tracking.ops.tracked()
    return tracking_lost() or {'done', {call('SCARD', P .. 'w'), call('ZCARD', P .. 'wq')}}
  end

  function tracking.ops.take_tracked()
    return tracking_lost() or {'done', call('SPOP', P .. 'w', text(A.limit))}
  end

  function tracking.ops.take_ids()
    local reply = tracking_lost()
    if reply then return reply end
    local ids = call('ZPOPMIN', P .. 'wq', text(A.limit))
    for i = 1, #ids, 2 do  -- ids are bytes, which an answer cannot have
      ids[i] = string.gsub(ids[i], '.', function(byte) return string.format('%02x', string.byte(byte)) end)
    end
    return {'done', ids}
  end

  -- Appends the rows of members with forms to `found`. With `newest`, their newest steps are the last column.
  local function add_rows(found, key, members, forms, count, newest)
    local names, w = {}, {}
    for i = 1, count + (newest and 1 or 0) do w[i] = {} end
    for i = 1, #members do
      if forms[i] then
        local slot = #names + 1
        names[slot] = members[i]
        decode_form(forms[i], w, slot, count)
        if newest then w[count + 1][slot] = newest[i] end
      end
    end
    if #names > 0 then
      found[#found + 1] = {key.window, key.instance, key.scope, key.running, key.is_tally or false, names, w}
    end
  end

  -- Appends the rows that members have in the tally of a step.
  local function add_cells(found, key, rolling, members)
    if B.best and not rolling.refreshed then
      local steps = {}
      for i, packed in ipairs(candidates_of(rolling, members)) do
        for _, candidate in ipairs(decode_candidates(packed, rolling.oldest_step)) do
          local step, w = candidate[1], {}
          for c = 1, width do w[c] = {candidate[c + 1]} end
          steps[step] = steps[step] or {}
          steps[step][i] = encode_form(w, 1, width)
        end
      end
      for step = rolling.oldest_step, rolling.running_step do
        key.instance = step
        if steps[step] then add_rows(found, key, members, steps[step], width) end
      end
      return
    end
    for step = rolling.oldest_step, rolling.running_step do
      local cells = fetch('HMGET', tally(rolling.name, step), members)
      for i = 1, scored and #members or 0 do cells[i] = cells[i] and tonumber(cells[i]) end
      key.instance = step
      add_rows(found, key, members, cells, words)
    end
  end

  local function add_window(found, scope, w, members)
    local rolling = rolling_window(w)
    if not rolling then return end
    local key = {window = window_of(rolling.name), scope = scope, running = rolling.running_step}
    key.is_tally = true
    add_cells(found, key, rolling, members)
    key.is_tally, key.instance = false, rolling.running_step
    local forms = forms_of(rolling.live, members)
    local newest = not rolling.refreshed and newest_steps(rolling, members, forms) or nil
    add_rows(found, key, members, forms, words, newest)
  end

  local function rankings_in(scope)
    return rankings_of(scope == '' and call('SMEMBERS', P .. 'i') or call('HKEYS', P .. 'i:' .. scope))
  end

  function tracking.ops.rows_of_members()
    local found = {}
    for _, part in ipairs(A.parts) do
      local scope, members = part[1], part[2]
      for _, w in ipairs(windows_in(scope)) do add_window(found, scope, w, members) end
      for _, ranked in ipairs(rankings_in(scope)) do
        local key = {window = window_of(ranked.window), instance = ranked.instance, scope = scope,
                     running = false}
        add_rows(found, key, members, forms_of(ranked, members), ranked.words)
      end
    end
    return {'done', found}
  end

  local function clear_ranking(ranked)
    local gone = {}
    for i = 1, #A.members do gone[i] = false end
    replace_forms(ranked, A.members, forms_of(ranked, A.members), gone)
  end

  function tracking.ops.clear_rows()
    for _, ranked in ipairs(rankings_in(A.scope)) do clear_ranking(ranked) end
    for _, w in ipairs(windows_in(A.scope)) do
      local rolling = rolling_window(w)
      if rolling then
        clear_ranking(rolling.live)
        clear_ranking(rolling.prepared)
        for step = rolling.oldest_step, rolling.running_step do
          send('HDEL', tally(rolling.name, step), A.members)
        end
        send('HDEL', P .. 'e:' .. rolling.name, A.members)
        send('HDEL', P .. 'c:' .. rolling.name, A.members)
      end
    end
    if A.scope == '' then
      send('HDEL', P .. 'x', A.members)
    elseif call('ZSCORE', P .. 'o', A.scope) then
      A.oldest = {}
      prune_scope(A.scope)
    end
    return {'done'}
  end
end
