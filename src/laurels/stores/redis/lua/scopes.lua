-- Scopes of a board: advancing them to the current time, and the operations that go through all of them.
--
-- A call that reads or writes a scope first rotates its rolling windows. After each boundary a sweep
-- advances all scopes, in shares, and any number of processes can run it at the same time. P o has for
-- each scope the time it was last advanced to. Advancing a scope can stop at any point; the next call
-- continues there.
--
-- Ops of `operate`, with their arguments besides now and windows:
--   sweep (before, oldest, limit)
--     advances scopes that were last advanced before the instant `before`; returns 1 if more may be stale
--   advance_scopes (scopes, full, oldest, limit)
--     rotates the windows of these scopes, or with `full` does all their due work; returns how many
--     scopes are done, in the order of `scopes`
--   remove_from_scopes (member, cursor, before, oldest, limit)
--     removes a member from a share of the scopes; returns the number of rankings that had the member,
--     and the next cursor
--   expire_scopes (cursor, lives, only: nil or {window, instance} of the only period)
--     goes through a share of the scopes and sets when their rankings expire, by `lives`; returns the next
--     cursor
--   keys_of_scopes (cursor)
--     goes through a share of the scopes; returns the names of their rankings, and the next cursor
-- `oldest` is, by window, the start of the oldest period that is kept.
local SCOPES_MOST = 25  -- how many scopes are read before the limit is checked

-- The cost of work on a scope, as a multiple of the cost of one member in a pass.
local SCOPE_COST, RANKING_COST, ROTATION_COST = 2, 1, 1

local function windows_in(scope)
  local windows = {}
  for i, w in ipairs(A.windows) do
    windows[i] = {name = in_scope(w.name, scope), steps = w.steps, running = w.running, named = w.named,
                  archived = w.archived, boundaries = w.boundaries}
  end
  return windows
end

local function form_of_scope(scope)
  if sub(scope, 1, 1) == '@' then return scope end
  return (string.gsub(scope, '=[^,]*', ''))
end

-- Sets the newest time of this board to the time of the call, if that is later.
local function note_time()
  local now = tonumber(call('HGET', KEYS[1], 'now') or '-1e300')
  if A.now > now then call('HSET', KEYS[1], 'now', text(A.now)) end
end

local function forget_scope(scope)
  call('ZREM', P .. 'l:' .. form_of_scope(scope), scope)
  call('UNLINK', P .. 'i:' .. scope)
  call('ZREM', P .. 'o', scope)
end

-- Calls `share` with the rest of the limit, but at least 1, so that each call makes progress.
-- Returns whether the work is complete, and the new rest of the limit, which may be negative.
local function run_share(limit, share)
  local most = math.max(1, limit)
  local done, left = share(most)
  return done, limit - (most - left)
end

local function rotate_scope(scope, limit)
  for _, w in ipairs(windows_in(scope)) do
    local done
    done, limit = run_share(limit - ROTATION_COST, function(left)
      return rotate_to(w, w.running, left)
    end)
    if not done then return false, limit end
  end
  return true, limit
end

-- Returns whether a window has a tally of any step that counts.
local function has_tallies(rolling)
  for step = rolling.oldest_step, rolling.running_step do
    if call('EXISTS', tally(rolling.name, step)) == 1 then return true end
  end
  return false
end

local function has_members(rolling)
  if call('EXISTS', rolling.live.r) == 1 then return true end
  return rolling.refreshed and has_tallies(rolling)
end

-- Removes the empty rolling windows of a scope, and returns the remaining ones. Except in a
-- refreshed window, every member of a current tally is also in the live ranking, so an empty live
-- ranking means that the window is empty.
local function drop_empty_windows(scope)
  local remaining = {}
  for _, w in ipairs(windows_in(scope)) do
    local rolling = rolling_window(w)
    if rolling and not has_members(rolling) then
      unlink_rankings(rolling)
      call('UNLINK', tally(rolling.name, rolling.oldest_step - 1))
      forget_window(rolling.name)
    elseif rolling then
      remaining[#remaining + 1] = rolling
    end
  end
  return remaining
end

-- Removes the rankings of a scope that are empty or no longer kept. Returns how many are left, and
-- how many there were before.
local function drop_periods(scope)
  local names, gone = call('HKEYS', P .. 'i:' .. scope), {}
  for i, ranked in ipairs(rankings_of(names)) do
    local oldest = A.oldest[window_of(ranked.window)]
    local expired = oldest and ranked.instance < oldest
    if expired then unlink_ranking(ranked) end
    if expired or call('EXISTS', ranked.r) == 0 then
      gone[#gone + 1] = names[i]
      hidden_entries.forget(ranked)
    else
      expire(ranked, ranked.window, ranked.instance)
    end
  end
  send('HDEL', P .. 'i:' .. scope, gone)
  return #names - #gone, #names
end

-- Removes the rankings of a scope that are empty or no longer kept, and the scope itself if none are
-- left. Returns the remaining rolling windows, nil if the scope is gone, and how many rankings of periods
-- there were.
local function prune_scope(scope)
  local remaining = drop_empty_windows(scope)
  local left, seen = drop_periods(scope)
  if #remaining > 0 or left > 0 then return remaining, seen end
  forget_scope(scope)
  return nil, seen
end

-- Does all due work of a scope, and prepares the next step of its rolling windows. Returns whether
-- this is complete, and the rest of the limit.
local function advance_scope(scope, limit)
  local done
  done, limit = rotate_scope(scope, limit - SCOPE_COST)
  if not done then return false, limit end
  local remaining, seen = prune_scope(scope)
  limit = limit - RANKING_COST * seen
  for _, rolling in ipairs(remaining or {}) do
    done, limit = run_share(limit, function(left) return continue_pass(rolling, left) end)
    if not done then return false, limit end
  end
  if remaining then call('ZADD', P .. 'o', 'XX', text(stale_before(A.now)), scope) end
  return true, limit
end

local function sweep()
  local limit, before = A.limit, '(' .. text(stale_before(A.before))
  note_time()
  while limit > 0 do
    local some = call('ZRANGEBYSCORE', P .. 'o', '-inf', before, 'LIMIT', '0', text(SCOPES_MOST))
    if #some == 0 then return {'done', 0} end
    for _, scope in ipairs(some) do
      local done
      done, limit = advance_scope(scope, limit)
      if not done or limit <= 0 then return {'done', 1} end
    end
  end
  return {'done', 1}
end

local function advance_scopes()
  local limit, advanced = A.limit, 0
  note_time()
  for _, scope in ipairs(A.scopes) do
    local done
    if limit <= 0 then break end
    done, limit = (A.full and advance_scope or rotate_scope)(scope, limit)
    if not done then break end
    advanced = advanced + 1
  end
  return {'done', advanced}
end

-- Removing a member

local function remove_from(ranked)
  if closing.is_frozen(ranked) and not closing.is_archived(ranked) then return 0 end
  local form = form_of(ranked, A.member)
  if form then replace_forms(ranked, {A.member}, {form}, {false}) end
  return form and 1 or 0
end

local function remove_from_window(rolling)
  local removed = remove_from(rolling.live)
  remove_from(rolling.prepared)
  for step = rolling.oldest_step - 1, rolling.running_step do
    call('HDEL', tally(rolling.name, step), A.member)
  end
  call('HDEL', P .. 'e:' .. rolling.name, A.member)
  call('HDEL', P .. 'c:' .. rolling.name, A.member)
  return removed
end

-- Returns whether the member is ranked in a window or, in a refreshed window, has a cell in a
-- tally.
local function is_in_window(rolling)
  if form_of(rolling.live, A.member) then return true end
  if not rolling.refreshed then return false end
  for step = rolling.oldest_step, rolling.running_step do
    if call('HEXISTS', tally(rolling.name, step), A.member) == 1 then return true end
  end
  return false
end

local function is_in_scope(scope)
  for _, ranked in ipairs(rankings_of(call('HKEYS', P .. 'i:' .. scope))) do
    if form_of(ranked, A.member) then return true end
  end
  for _, w in ipairs(windows_in(scope)) do
    local rolling = rolling_window(w)
    if rolling and is_in_window(rolling) then return true end
  end
  return false
end

-- Advances a scope, which removes the rankings that are no longer kept, and then removes the member
-- from the scope. Returns whether this is complete, the rest of the limit, and how many rankings
-- had the member.
local function remove_from_scope(scope, limit)
  local done, removed = true, 0
  if tonumber(call('ZSCORE', P .. 'o', scope)) < stale_before(A.before) then
    done, limit = advance_scope(scope, limit)
    if not done then return false, limit, 0 end
  end
  for _, ranked in ipairs(rankings_of(call('HKEYS', P .. 'i:' .. scope))) do
    removed = removed + remove_from(ranked)
  end
  for _, w in ipairs(windows_in(scope)) do
    local rolling = rolling_window(w)
    if rolling and is_in_window(rolling) then
      removed, limit = removed + remove_from_window(rolling), limit - rolling.steps / 10
    end
  end
  prune_scope(scope)
  return true, limit, removed
end

local function remove_from_scopes()
  for _, w in ipairs(A.windows) do  -- a caller with a slower clock cannot rotate the scopes
    local run = w.archived and tonumber(call('HGET', KEYS[1], 'run:' .. w.name) or nil)
    if run and run > w.running then return {'plan_expired', tonumber(call('HGET', KEYS[1], 'now'))} end
  end
  local names, next_cursor = scan_share('ZSCAN', P .. 'o', A.cursor, A.limit, A.limit)
  local limit, removed = A.limit, 0
  for _, scope in ipairs(names) do
    if sub(scope, 1, 1) ~= '@' and is_in_scope(scope) then
      local done, more = false, 0
      if limit > 0 then done, limit, more = remove_from_scope(scope, limit) end
      removed = removed + more
      if more > 0 then tracking.note(scope, {A.member}) end
      if not done then
        next_cursor = A.cursor
        break
      end
    end
  end
  if removed > 0 and B.refreshed then note_list_change(append_change('removed', A.member)) end
  return {'done', {removed, next_cursor}}
end

-- All scopes

-- Goes through a share of the scopes and sets when their keys expire: rankings of periods by
-- `lives`, other keys by `gone`. Returns the next cursor.
local function expire_scopes()
  local names, next_cursor = scan_share('ZSCAN', P .. 'o', A.cursor, SCOPES_MOST, SCOPES_MOST)
  for _, scope in ipairs(names) do
    for _, ranked in ipairs(rankings_of(call('HKEYS', P .. 'i:' .. scope))) do
      local only = A.only
      if not only or ranked.instance == only[2] and window_of(ranked.window) == only[1] then
        expire(ranked, ranked.window, ranked.instance, A.lives)
      end
    end
    for _, w in ipairs(gone and windows_in(scope) or {}) do
      local rolling = rolling_window(w)
      if rolling then expire_window(rolling) end
    end
    if gone then call('EXPIREAT', P .. 'i:' .. scope, text(gone)) end
  end
  return {'done', next_cursor}
end

local function keys_of_scopes()
  local names, next_cursor = scan_share('ZSCAN', P .. 'o', A.cursor, SCOPES_MOST, SCOPES_MOST)
  local ranking_names = {}
  for _, scope in ipairs(names) do
    for _, name in ipairs(call('HKEYS', P .. 'i:' .. scope)) do ranking_names[#ranking_names + 1] = name end
    for _, w in ipairs(windows_in(scope)) do
      local rolling = rolling_window(w)
      if rolling then
        ranking_names[#ranking_names + 1] = rolling.name .. ':' .. text(rolling.running_step)
      end
    end
  end
  return {'done', {ranking_names, next_cursor}}
end

-- Removes a share of the scopes. Returns whether none are left.
local function close_scopes()
  local tallies = 0
  for _, scope in ipairs(call('ZRANGE', P .. 'o', '0', text(SCOPES_MOST - 1))) do
    if tallies > TALLIES_MOST then return false end
    for _, ranked in ipairs(rankings_of(call('HKEYS', P .. 'i:' .. scope))) do
      unlink_ranking(ranked)
    end
    for _, w in ipairs(windows_in(scope)) do
      local rolling = rolling_window(w)
      if rolling and not unlink_window(rolling) then return false end
      tallies = tallies + (rolling and w.steps or 0)
    end
    forget_scope(scope)
  end
  return call('EXISTS', P .. 'o') == 0
end
