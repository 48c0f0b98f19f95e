-- Scopes of a board: bringing them to the present, and what goes through all of them.
--
-- They are brought by whoever asks for one or writes to it, as far as its rolling windows go, and all
-- of them by a sweep after each boundary, in shares, that any number of processes may run at once:
-- the mark of a scope (P o) says up to when it was done. A visit may break off anywhere, and the next
-- one goes on.
--
-- ops of `keep`, besides now and windows:
--   sweep (before, oldest, limit)          visits scopes that were brought before that instant;
--                                          1 where there may be more
--   bring (scopes, full, oldest, limit)    turns the windows of these, or with `full` visits them;
--                                          how many are done, from the first one on
--   discard (member, place, before, oldest, limit)   takes a member out of a share of the scopes; in
--                                          how many rankings it was, the next place
--   expire_scopes (place, lives)           has the rankings of a share of the scopes expire by what
--                                          lives says; the next place
--   scoped (place)                         the rankings of a share of the scopes; the next place
-- `oldest` says by window which periods are kept: those that begin no earlier.
local SCOPES = 25  -- that are looked at before the limit is

-- What there is to do for a scope, in members of a pass.
local VISIT, RANKING, TURN = 2, 1, 1

local function in_windows(scope)
  local found = {}
  for i, w in ipairs(A.windows) do
    found[i] = {name = in_scope(w.name, scope), steps = w.steps, running = w.running}
  end
  return found
end

local function form_of_scope(scope)
  if sub(scope, 1, 1) == '@' then return scope end
  return (string.gsub(scope, '=[^,]*', ''))
end

-- The newest time that was seen of this board moves on.
local function see()
  local now = tonumber(call('HGET', KEYS[1], 'now') or '-1e300')
  if A.now > now then call('HSET', KEYS[1], 'now', text(A.now)) end
end

local function forget_scope(scope)
  call('ZREM', P .. 'l:' .. form_of_scope(scope), scope)
  call('UNLINK', P .. 'i:' .. scope)
  call('ZREM', P .. 'o', scope)
end

-- Runs a share with the remaining limit, at least 1, so that each visit makes progress; an overdrawn
-- limit stays overdrawn.
local function at_least(limit, share)
  local most = math.max(1, limit)
  local there, left = share(most)
  return there, limit - (most - left)
end

local function turn_scope(scope, limit)
  for _, w in ipairs(in_windows(scope)) do
    local there
    there, limit = at_least(limit - TURN, function(left) return turn_to(w, w.running, left) end)
    if not there then return false, limit end
  end
  return true, limit
end

-- Whether there are tallies of a window that count.
local function has_tallies(rolled)
  for step = rolled.leaving, rolled.run do
    if call('EXISTS', tally(rolled.name, step)) == 1 then return true end
  end
  return false
end

local function holds_anybody(rolled)
  if call('EXISTS', rolled.live.r) == 1 then return true end
  return rolled.refreshed and has_tallies(rolled)
end

-- Takes away the rolling windows of a scope that hold nobody; those that are left. Whoever is in a
-- tally that counts is in the live ranking, unless that is refreshed.
local function held_windows(scope)
  local held = {}
  for _, w in ipairs(in_windows(scope)) do
    local rolled = rolling(w)
    if rolled and not holds_anybody(rolled) then
      unlink_rankings(rolled)
      call('UNLINK', tally(rolled.name, rolled.leaving - 1))
      forget_rolling(rolled.name)
    elseif rolled then
      held[#held + 1] = rolled
    end
  end
  return held
end

-- Takes away the rankings of a scope that are no longer kept or hold nobody; how many are left, and
-- how many there were.
local function drop_periods(scope)
  local names, gone = call('HKEYS', P .. 'i:' .. scope), {}
  for i, ranked in ipairs(rankings_of(names)) do
    local oldest = A.oldest[window_of(ranked.window)]
    local expired = oldest and ranked.instance < oldest
    if expired then unlink_ranking(ranked) end
    if expired or call('EXISTS', ranked.r) == 0 then
      gone[#gone + 1] = names[i]
    else
      expire(ranked, ranked.window, ranked.instance)
    end
  end
  send('HDEL', P .. 'i:' .. scope, gone)
  return #names - #gone, #names
end

-- Takes away what of a scope holds nobody or is no longer kept, and the scope where that is all; the
-- rolling windows that are left, or nil, and how many rankings there were.
local function settle(scope)
  local held = held_windows(scope)
  local left, seen = drop_periods(scope)
  if #held > 0 or left > 0 then return held, seen end
  forget_scope(scope)
  return nil, seen
end

-- Does all that is due for a scope, and prepares the next step of its rolling windows; whether that
-- is all, and what is left of the limit.
local function visit(scope, limit)
  local there
  there, limit = turn_scope(scope, limit - VISIT)
  if not there then return false, limit end
  local held, seen = settle(scope)
  limit = limit - RANKING * seen
  for _, rolled in ipairs(held or {}) do
    there, limit = at_least(limit, function(left) return advance(rolled, left) end)
    if not there then return false, limit end
  end
  if held then call('ZADD', P .. 'o', 'XX', text(behind_before(A.now)), scope) end
  return true, limit
end

local function sweep()
  local limit, before = A.limit, '(' .. text(behind_before(A.before))
  see()
  while limit > 0 do
    local some = call('ZRANGEBYSCORE', P .. 'o', '-inf', before, 'LIMIT', '0', text(SCOPES))
    if #some == 0 then return {'done', 0} end
    for _, scope in ipairs(some) do
      local there
      there, limit = visit(scope, limit)
      if not there or limit <= 0 then return {'done', 1} end
    end
  end
  return {'done', 1}
end

local function bring()
  local limit, done = A.limit, 0
  see()
  for _, scope in ipairs(A.scopes) do
    local there
    if limit <= 0 then break end
    there, limit = (A.full and visit or turn_scope)(scope, limit)
    if not there then break end
    done = done + 1
  end
  return {'done', done}
end

-- Removing a member

local function discard(ranked)
  local form = form_of(ranked, A.member)
  if form then place(ranked, {A.member}, {form}, {false}) end
  return form and 1 or 0
end

local function discard_rolling(rolled)
  local found = discard(rolled.live)
  discard(rolled.prepared)
  for step = rolled.leaving - 1, rolled.run do call('HDEL', tally(rolled.name, step), A.member) end
  call('HDEL', P .. 'e:' .. rolled.name, A.member)
  call('HDEL', P .. 'c:' .. rolled.name, A.member)
  return found
end

-- Whether the member is ranked in a window, or in a tally of one that is refreshed.
local function is_in_window(rolled)
  if form_of(rolled.live, A.member) then return true end
  for step = rolled.leaving, rolled.refreshed and rolled.run or rolled.leaving - 1 do
    if call('HEXISTS', tally(rolled.name, step), A.member) == 1 then return true end
  end
  return false
end

local function is_in(scope)
  for _, ranked in ipairs(rankings_of(call('HKEYS', P .. 'i:' .. scope))) do
    if form_of(ranked, A.member) then return true end
  end
  for _, w in ipairs(in_windows(scope)) do
    local rolled = rolling(w)
    if rolled and is_in_window(rolled) then return true end
  end
  return false
end

-- A scope is brought first: a member that is only where nobody looks any more was not ranked.
local function discard_in(scope, limit)
  local there, found = true, 0
  if tonumber(call('ZSCORE', P .. 'o', scope)) < behind_before(A.before) then
    there, limit = visit(scope, limit)
    if not there then return false, limit, 0 end
  end
  for _, ranked in ipairs(rankings_of(call('HKEYS', P .. 'i:' .. scope))) do
    found = found + discard(ranked)
  end
  for _, w in ipairs(in_windows(scope)) do
    local rolled = rolling(w)
    if rolled and is_in_window(rolled) then
      found, limit = found + discard_rolling(rolled), limit - rolled.steps / 10
    end
  end
  settle(scope)
  return true, limit, found
end

local function discard_scopes()
  local names, after_ = share_of('ZSCAN', P .. 'o', A.place, A.limit, A.limit)
  local limit, found = A.limit, 0
  for _, scope in ipairs(names) do
    if sub(scope, 1, 1) ~= '@' and is_in(scope) then
      local there, more = false, 0
      if limit > 0 then there, limit, more = discard_in(scope, limit) end
      found = found + more
      if not there then
        after_ = A.place
        break
      end
    end
  end
  if found > 0 and B.refreshed then move(tell('removed', A.member)) end
  return {'done', {found, after_}}
end

-- All scopes

-- Has the rankings of a share of the scopes expire by `lives`; the next place.
local function expire_scopes()
  local names, after_ = share_of('ZSCAN', P .. 'o', A.place, SCOPES, SCOPES)
  for _, scope in ipairs(names) do
    for _, ranked in ipairs(rankings_of(call('HKEYS', P .. 'i:' .. scope))) do
      expire(ranked, ranked.window, ranked.instance, A.lives)
    end
  end
  return {'done', after_}
end

local function scoped()
  local names, after_ = share_of('ZSCAN', P .. 'o', A.place, SCOPES, SCOPES)
  local found = {}
  for _, scope in ipairs(names) do
    for _, name in ipairs(call('HKEYS', P .. 'i:' .. scope)) do found[#found + 1] = name end
    for _, w in ipairs(in_windows(scope)) do
      local rolled = rolling(w)
      if rolled then found[#found + 1] = rolled.name .. ':' .. text(rolled.run) end
    end
  end
  return {'done', {found, after_}}
end

-- Takes a share of the scopes away; whether that is all.
local function close_scopes()
  local tallies = 0
  for _, scope in ipairs(call('ZRANGE', P .. 'o', '0', text(SCOPES - 1))) do
    if tallies > TALLIES then return false end
    for _, ranked in ipairs(rankings_of(call('HKEYS', P .. 'i:' .. scope))) do
      unlink_ranking(ranked)
    end
    for _, w in ipairs(in_windows(scope)) do
      local rolled = rolling(w)
      if rolled and not unlink_rolling(rolled) then return false end
      tallies = tallies + (rolled and w.steps or 0)
    end
    forget_scope(scope)
  end
  return call('EXISTS', P .. 'o') == 0
end
