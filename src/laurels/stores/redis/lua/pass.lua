-- The pass that prepares the next step of a rolling window.
--
-- The prepared ranking is made from the ranking of the step before the running one. The pass has
-- two phases: the first goes through the members of the tally that left the window last, the second
-- through those of the tally that leaves next. The entries of all other members stay as they are.
-- If the earlier ranking was kept at a boundary (`closing.keep_boundary`), the prepared ranking is
-- empty at first: then the field whole:<w> of P m is set, and the second phase goes through all
-- members of the live ranking.
--
-- The tally that has left is not needed after the pass. If it is large, its members are deleted
-- during the pass, since deleting it at once, even with UNLINK, would block a server with one core;
-- the rest is deleted when the window rotates. A refreshed window has no prepared ranking; its pass
-- only deletes the tally that left.

-- The number of bytes of candidates whose reading costs as much as one member. All candidates of a
-- member are read together.
local CANDIDATE_BYTES = 2048

-- The maximum number of members of a tally that is deleted at once.
local UNLINK_MOST = 512

-- Deletes the newest steps and candidates of members that have no cells left in the window.
local function delete_departed(rolling, names, forms)
  local gone = {}
  for i = 1, #names do
    if not forms[i] then gone[#gone + 1] = names[i] end
  end
  if scored then send('HDEL', rolling.newest, gone) end
  if B.best then send('HDEL', rolling.candidates, gone) end
end

-- Returns the cursor of the pass in a tally. A cursor is valid only in the server process that
-- returned it: after a restart, or in a promoted replica, the pass begins the tally again.
local function pass_cursor(rolling, process)
  local stored = call('HGET', KEYS[1], 'place:' .. rolling.name) or ''
  local owner, cursor = string.match(stored, '^(%x+):(%d+:?%d*)$')
  return owner == process and cursor or '0:'
end

-- Returns the id of the server process, which is read at most once in a call.
local own_process

local function process_of()
  own_process = own_process or string.match(call('INFO', 'server'), 'run_id:(%x+)')
  return own_process
end

-- Returns a function that weighs a member by the size of its candidates; nil for a window without
-- candidates.
local function weight_function(rolling)
  return rolling.candidates and function(member)
    return 1 + floor(call('HSTRLEN', rolling.candidates, member) / CANDIDATE_BYTES)
  end
end

-- The cost of a pass whose two tallies are both empty. A board with many scopes has many such
-- passes.
local EMPTY_STEP_COST = 0.5

-- Continues, by about `limit` members, the pass that prepares the next step. Returns whether the
-- pass is complete, the rest of the limit, and whether both tallies were empty. If a tally is
-- not empty, at least a few members are subtracted from the limit, however few the tally has.
local function continue_pass(rolling, limit)
  local fields = call('HMGET', KEYS[1], 'phase:' .. rolling.name, 'whole:' .. rolling.name)
  local phase, whole = tonumber(fields[1] or '0'), fields[2]
  local last = tally(rolling.name, rolling.oldest_step - 1)
  if phase == 0 and not whole and call('EXISTS', last, rolling.oldest_tally or last) == 0 then
    return true, limit - EMPTY_STEP_COST, true
  end
  local process = phase < 2 and process_of()
  -- `each` is the mean weight of a member. With candidates it is unknown before the first share.
  local weigh, each = weight_function(rolling), rolling.candidates and limit or 1
  while phase < 2 and limit > 0 do
    local command, from = 'HSCAN', tally(rolling.name, rolling.oldest_step - 1 + phase)
    if whole and phase == 1 then
      command, from = scored and 'ZSCAN' or 'HSCAN', scored and rolling.live.r or rolling.live.k
    end
    local many = math.max(1, floor(limit / each))
    local names, cursor, weight = scan_share(command, from, pass_cursor(rolling, process), limit, many, weigh)
    local forms = not rolling.refreshed and forms_of(rolling.live, names)
    if forms then
      prepare(rolling, names, forms, newest_steps(rolling, names, forms),
              fetch('HMGET', rolling.oldest_tally, names), candidates_of(rolling, names))
    end
    if phase == 0 then
      if forms then delete_departed(rolling, names, forms) end
      if call('HLEN', from) > UNLINK_MOST then send('HDEL', from, names) end
    end
    limit, each = limit - weight - 2, #names > 0 and weight / #names or each
    if cursor == '0' then
      phase = rolling.refreshed and 2 or phase + 1
      call('HSET', KEYS[1], 'phase:' .. rolling.name, text(phase))
      if whole and phase == 2 then call('HDEL', KEYS[1], 'whole:' .. rolling.name) end
    end
    call('HSET', KEYS[1], 'place:' .. rolling.name, process .. ':' .. cursor)
  end
  return phase >= 2, limit
end

-- Removal

local TALLIES_MOST = 200  -- the maximum number of tallies that one call removes

-- Removes a ranking, or a share of a large ranking. Returns whether nothing is left of it.
local function unlink_ranking(ranked)
  if has_head(ranked) and not head.unlink(ranked) then return false end
  call('UNLINK', ranked.r, P .. 'k:' .. ranked.name, P .. 'd:' .. ranked.name, P .. 'n:' .. ranked.name)
  hidden_entries.forget(ranked)
  return true
end

local function unlink_rankings(rolling)
  unlink_ranking(rolling.live)
  unlink_ranking(rolling.prepared)
  call('UNLINK', P .. 'e:' .. rolling.name, P .. 'c:' .. rolling.name)
end

local function forget_window(name)
  call('HDEL', KEYS[1], 'run:' .. name, 'phase:' .. name, 'place:' .. name, 'built:' .. name, 'whole:' .. name)
end

-- Removes a share of the tallies of a window. Returns whether none are left.
local function unlink_tallies(rolling)
  local stored = call('HGET', KEYS[1], 'place:' .. rolling.name) or ''
  local first = tonumber(string.match(stored, '^gone:(%-?%d+)$')) or rolling.oldest_step - 1
  local last, tallies = math.min(first + TALLIES_MOST - 1, rolling.running_step), {}
  for step = first, last do tallies[#tallies + 1] = tally(rolling.name, step) end
  call('UNLINK', unpack(tallies))
  if last < rolling.running_step then
    call('HSET', KEYS[1], 'place:' .. rolling.name, 'gone:' .. text(last + 1))
    return false
  end
  return true
end

-- Removes a window, or a share of its tallies. Returns whether nothing is left. The rankings are
-- removed first, so that a pass through the remaining tallies finds no ranked members.
local function unlink_window(rolling)
  unlink_rankings(rolling)
  if not unlink_tallies(rolling) then return false end
  forget_window(rolling.name)
  return true
end

-- Makes the keys of a window expire when the board is removed.
local function expire_window(rolling)
  local keys = {P .. 'e:' .. rolling.name, P .. 'c:' .. rolling.name}
  for _, ranked in ipairs({rolling.live, rolling.prepared}) do
    expire(ranked, ranked.window, ranked.instance, {})
  end
  for step = rolling.oldest_step - 1, rolling.running_step do keys[#keys + 1] = tally(rolling.name, step) end
  for _, key in ipairs(keys) do call('EXPIREAT', key, text(gone)) end
end

local function begin_step(name, step)
  call('HSET', KEYS[1], 'run:' .. name, text(step), 'phase:' .. name, '0', 'place:' .. name, '0')
end

-- Moves a window directly to the running step, by one share of work, if none of its stored steps
-- counts any more. Returns whether the work is complete. A refreshed window keeps its ranking until
-- the next refresh.
local function reset_to_step(rolling, running)
  if not rolling.refreshed then return unlink_window(rolling) end
  if not unlink_tallies(rolling) then return false end
  begin_step(rolling.name, running)
  return true
end

-- Returns whether a window with an archive is archived at the end of its stored step.
function closing.ends_at_boundary(w, rolling)
  if not w.archived then return false end
  if not w.boundaries then
    w.boundaries = {}
    for _, step in ipairs(w.archived) do w.boundaries[step] = true end
  end
  return w.boundaries[rolling.running_step] or false
end

-- Returns whether the caller has named the steps around this step at whose ends a window is archived.
function closing.is_named(w, step)
  for _, range in ipairs(w.named) do
    if step >= range[1] and step < range[2] then return true end
  end
  return false
end

-- Keeps the live ranking as what the window shows at the end of its stored step: renames it,
-- registers it and freezes it, since a removal by a caller with a slower clock must not change it.
-- O(1). The next pass would have changed this ranking into the prepared one; now it has to make
-- that anew (whole:<w>).
function closing.keep_boundary(rolling)
  local live, kept = rolling.live, ranking(rolling.name, rolling.running_step)
  hidden_entries.forget(live)
  for _, kind in ipairs({'r', 'k', 'd', 'n'}) do
    if live[kind] and call('EXISTS', live[kind]) == 1 then call('RENAME', live[kind], kept[kind]) end
  end
  local window = window_of(rolling.name)
  call('SADD', P .. 'i', window .. ':' .. text(rolling.running_step))
  if window ~= rolling.name then
    call('HSET', P .. 'i:' .. sub(rolling.name, #window + 2), kept.name, '')
  end
  call('HSET', KEYS[1], 'whole:' .. rolling.name, '1')
  closing.raise('closed:', {[window] = rolling.running_step})
  closing.gates[window] = nil
end

-- Advances a window towards the running step, at a cost of about `limit` members at most. Returns
-- whether it has reached that step, and the rest of the limit. `w.archived` has the steps within the
-- ranges `w.named` at whose ends the window is archived. If the window has members and its stored step
-- is in none of these ranges, it is not advanced: `closing.needed` gets the stored step of the window,
-- around which the caller has to name such steps.
local function rotate_to(w, running, limit)
  local rolling = rolling_window(w)
  if not rolling or rolling.running_step >= running then return true, limit end
  local complete, empty
  while rolling.running_step < running do
    local shows = w.archived and call('EXISTS', rolling.live.r) == 1
    if not shows and running - rolling.running_step >= rolling.steps then
      return reset_to_step(rolling, running), limit - math.min(TALLIES_MOST, rolling.steps) / 10
    end
    if shows and not closing.is_named(w, rolling.running_step) then
      closing.needed = closing.needed or {}
      local window, step = window_of(w.name), rolling.running_step
      closing.needed[window] = math.min(closing.needed[window] or step, step)
      return false, 0
    end
    complete, limit, empty = continue_pass(rolling, limit)
    if not complete then return false, limit end
    if not empty then call('UNLINK', tally(rolling.name, rolling.oldest_step - 1)) end
    begin_step(rolling.name, rolling.running_step + 1)
    if shows and closing.ends_at_boundary(w, rolling) then closing.keep_boundary(rolling) end
    rolling = rolling_window(w, rolling.running_step + 1)
  end
  return true, limit
end

-- Returns the rankings with these names, <window>:<instance>.
local function rankings_of(names)
  local rankings = {}
  for i, name in ipairs(names) do
    local window, instance = string.match(name, '^(.*):([^:]*)$')
    rankings[i] = ranking(window, tonumber(instance))
    rankings[i].window, rankings[i].instance = window, tonumber(instance)
  end
  return rankings
end
