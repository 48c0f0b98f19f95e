-- The refresh of a window: a new ranking is built from its tallies, in shares, beside the one that is
-- shown, and takes its place when it is complete.
--
-- A build first makes the ranking of all events, then those of the scopes, in the order of their
-- names. For each ranking it first removes the old entries, which the refresh before the last one
-- made. Then it goes through the tallies of the steps that count, from the oldest on. When it finds
-- a member for the first time, it adds up all cells of the member and ranks the member; members
-- that are already ranked are skipped. So each member is ranked once, and this invariant holds:
--
--   a member that a build has not ranked has no cells in the steps that the build is done with.
--
-- Events preserve this invariant (count.lua). An event of a ranked member is also counted in the
-- ranking that is being built. An event of an unranked member in a step that the build has reached
-- causes the member to be ranked. An event of an unranked member in a later step does not change
-- the ranking. So a build is always exact for the members that it has ranked; it ends after one
-- round, however much is written; and any process can continue it at any time. When the window
-- rotates, the build begins again. The end of a build increments one number (gen:<w>).
--
-- Op of `operate`; its arguments are rolling (only this window, with its running step), due, and:
--   refresh (before, forms, limit)   continues the refresh if the last one was before the instant `before`;
--                                    returns about how many members are left, 0 when it is done, and
--                                    the states of the windows. `forms` are the forms of the
--                                    scopes.
-- `limit` is a number of cells to be added up, which take 0.2 to 0.4 µs each. The cost of other work, as a
-- number of cells:
local MEMBER_COST = 2         -- checking whether a member is ranked
local RANK_COST = 12          -- ranking a member, without adding up its cells
local UNRANK_COST = 6         -- removing a member from a ranking
local CALL_COST = 3           -- about the cost of a command
local BUILD_SCOPE_COST = 20   -- beginning a scope

local function store_progress(build, name, at, cursor)
  call('HSET', KEYS[1], 'built:' .. name, encode_progress(build, at, cursor))
end

local function members_of(ranked, entries)
  if scored then return entries end
  local members = {}
  for i, entry in ipairs(entries) do members[i] = sub(entry, 8 * ranked.width + 1) end
  return members
end

-- Removes a share of a ranking, including entries of members that have no stored form. Returns
-- whether the ranking is empty, and the rest of the limit.
local function clear_ranking(ranked, limit)
  while limit > 0 do
    if call('ZCARD', ranked.r) <= UNLINK_MOST then
      unlink_ranking(ranked)
      return true, limit - CALL_COST
    end
    local most = math.max(1, floor(limit / UNRANK_COST))
    local entries = call('ZRANGE', ranked.r, '0', text(most - 1))
    local members = members_of(ranked, entries)
    local none = {}
    for i = 1, #members do none[i] = false end
    replace_forms(ranked, members, forms_of(ranked, members), none)
    send('ZREM', ranked.r, entries)
    limit = limit - UNRANK_COST * #members - CALL_COST
  end
  return false, limit
end

-- Continues a build in the tally of a step. Returns the next cursor, and the rest of the limit.
local function build_step(rolling, step, cursor, limit)
  local steps = rolling.running_step - step + 1
  local many = math.max(1, floor(limit / (MEMBER_COST + RANK_COST + steps)))
  local names, next_cursor = scan_share('HSCAN', tally(rolling.name, step), cursor, many, many)
  local ranked, new = forms_of(rolling.prepared, names), {}
  for i, name in ipairs(names) do
    if not ranked[i] then new[#new + 1] = name end
  end
  limit = limit - CALL_COST - MEMBER_COST * #names
  if #new > 0 then
    replace_forms(rolling.prepared, new, {}, (forms_from_cells(rolling, new, step)))
    limit = limit - (RANK_COST + steps) * #new - CALL_COST * steps
  end
  return next_cursor, limit
end

-- Continues a build in one scope. Returns whether the scope is complete, and the rest of the limit.
local function build_scope(build, w, name, limit)
  local at, stored_cursor = build_progress(build, name)
  local rolling = rolling_window({name = name, steps = w.steps}, build.step)
  if at and at ~= 'clear' and at > rolling.running_step then return true, limit - CALL_COST end
  if not at or at == 'clear' then
    local cleared
    cleared, limit = clear_ranking(rolling.prepared, limit)
    at, stored_cursor = cleared and rolling.oldest_step or 'clear', ''
  end
  local process = process_of()
  local owner, cursor = string.match(stored_cursor, '^(%x+):(%d+:?%d*)$')
  if owner ~= process then cursor = '0:' end
  while at ~= 'clear' and at <= rolling.running_step and limit > 0 do
    cursor, limit = build_step(rolling, at, cursor, limit)
    if cursor == '0' then at, cursor = at + 1, '0:' end
  end
  store_progress(build, name, at, process .. ':' .. cursor)
  if at == 'clear' or at <= rolling.running_step then return false, limit end
  if call('EXISTS', rolling.prepared.r) == 1 then
    call('HSET', KEYS[1], 'some:' .. w.name, '1')
  else
    call('HSET', KEYS[1], 'empty:' .. w.name, '1')
  end
  return true, limit
end

-- Returns a few scopes that follow the scope `after`, among the scopes of one form. `form` is the
-- index of the form in A.forms.
local function next_scopes(form, after)
  local from = after == '' and '-' or '(' .. after
  return call('ZRANGEBYLEX', P .. 'l:' .. A.forms[form], from, '+', 'LIMIT', '0', text(SCOPES_MOST))
end

-- Continues a build; returns whether it is complete.
local function continue_build(build, w, limit)
  local done
  done, limit = build_scope(build, w, w.name, limit)
  local stored = call('HGET', KEYS[1], 'next:' .. w.name) or '1:'
  local form, after = string.match(stored, '^(%d+):(.*)$')
  form = tonumber(form)
  while done and limit > 0 and A.forms[form] do
    local some = next_scopes(form, after)
    for _, scope in ipairs(some) do
      if limit <= 0 then break end
      done, limit = build_scope(build, w, in_scope(w.name, scope), limit - BUILD_SCOPE_COST)
      if not done then break end
      after = scope
    end
    if #some == 0 then form, after = form + 1, '' end
  end
  call('HSET', KEYS[1], 'next:' .. w.name, text(form) .. ':' .. after)
  return done and not A.forms[form]
end

local function begin_build(w)
  local number = call('HINCRBY', KEYS[1], 'builds:' .. w.name, '1')
  local build = {number = text(number), step = w.running}
  call('HSET', KEYS[1], 'build:' .. w.name, build.number .. ':' .. text(build.step))
  call('HDEL', KEYS[1], 'next:' .. w.name, 'some:' .. w.name, 'empty:' .. w.name)
  return build
end

-- Makes the built ranking the shown one. If some scopes are empty now, marks all scopes as stale,
-- so that a sweep removes the empty ones.
local function show_build(w)
  local name = w.name
  local stored = call('HMGET', KEYS[1], 'some:' .. name, 'empty:' .. name)
  call('HINCRBY', KEYS[1], 'gen:' .. name, '1')
  shown_instances[name] = nil
  local seq = append_change('refreshed', name)
  call('HSET', KEYS[1], 'shown:' .. name, text(A.now), 'noted:' .. name, text(A.now),
       'moved:' .. name, text(seq))
  if not stored[1] then call('HDEL', KEYS[1], 'waits:' .. name) end
  if stored[2] and #A.forms > 0 then closing.set_stale(A.now) end
  call('HDEL', KEYS[1], 'build:' .. name, 'next:' .. name, 'some:' .. name, 'empty:' .. name)
end

-- Returns approximately how many members a build still has to rank in the ranking of all events.
local function members_left(w, build)
  local rolling = rolling_window(w, build.step)
  return math.max(1, call('ZCARD', rolling.live.r) - call('ZCARD', rolling.prepared.r))
end

local function refresh()
  local reply = refusal_reply()
  if reply then return reply end
  note_time()
  local w, left = A.rolling[1], 0
  local noted, waits = unpack(call('HMGET', KEYS[1], 'noted:' .. w.name, 'waits:' .. w.name))
  if noted and tonumber(noted) >= A.before then return {'done', {0, refresh_states()}} end
  if waits then
    local build = current_build(w.name)
    if not build or build.step ~= w.running then build = begin_build(w) end
    if continue_build(build, w, A.limit) then show_build(w) else left = members_left(w, build) end
  else
    call('HSET', KEYS[1], 'noted:' .. w.name, text(A.now))
  end
  return {'done', {left, refresh_states()}}
end
