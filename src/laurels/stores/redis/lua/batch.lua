-- The argument of `count`, and the reading of the members' rows in every target of the batch.
--
-- ARGV[1]  msgpack of
--   board, now, due, rolling {name, steps, running}; targets {window, instance, scope}
--   windows {name, steps, running, lows, highs, form} (steps 0: not rolling); a window with decay also
--     has exponents and mantissas, each a number or a list
--   routes: for each window the target of all events, or a list of the targets of each event; a number
--     below 1 means no target
--   members (each once); event_members: for each event the index of its member (nil: event i is of
--     member i)
--   values (a list for each column, signed); ats, stamps (a number or a list); ids (texts or false, or
--     nil); late (positions of events)
--   lag (the most milliseconds by which the caller's time may be earlier than that of the latest batch, nil
--     in event time: the events would get earlier times than those before, and a `last` column would
--     ignore them)
--   position (source, text, …: what to store); follows: see `position_conflict`
--   zeros: on a board that does not rank members whose score is 0, the two anchors before and after
--     these members in the watched window, see read.lua; hidden: the hidden members of this shard, which get
--     no ranks, or true for those of the version `listed`; small: see hidden.lua
--   absolute (whether events set totals instead of adding to them); all (the index of the window
--     `all`, 0 without one); totals (if events set totals: the name and the instance of this window); atomic (whether the batch is all-or-nothing); watch (the index of the
--     window whose scores and ranks are returned, 0 for none); ranks (whether ranks are returned);
--     forget (how long ids are remembered, in milliseconds); most_ids (how many at most); call
--     {token, number}: the id of the call
--   if sums suffice, instead of values, ats, ids, late and event_members: events (their number), and for
--     each member sums, stamps, and the least and most of the prefix sums (nil: equal to the sums)
--   on a board with scopes: scopes {name, form, slots or names} (the members in a scope, as
--     indexes of members or by name); forms {name, event_members} (for each event the index of its
--     member among the members of its scope, 0 for an event in no scope of this form)
--   for a board whose rankings by a label are in a label replica: feed (what to append to the feed)
--   in a label replica: feeds (how many shards it follows), spans {shard, entry before, last entry},
--     baselines (for each event that set a total, the previous total; false for other events)
local APPLIED, UNCHANGED, OUT_OF_RANGE, DUPLICATE, TOO_LATE, FULL, ROLLED_BACK = 1, 2, 3, 4, 5, 6, 7

-- A call that is repeated because its answer was lost gets the first answer again. A delayed call
-- that arrives after a later call of the same process is refused.
local answers = A.call and P .. 'a:' .. A.call[1]
if answers then
  local stored = call('GET', answers)
  if stored then
    local number, reply = string.match(stored, '^(%d+):(.*)$')
    if tonumber(number) == A.call[2] then return reply end
    if tonumber(number) > A.call[2] then return redis.error_reply('ERR a later call was made') end
  end
end

local windows, targets, watch = A.windows, A.targets, A.watch
local members, event_members = A.members, A.event_members
local events = event_members and #event_members or #members
local ids = P .. 'q'

-- Only the members with events in a scope are read and written in that scope. They are numbered
-- separately in each scope; the number of a member is its slot.
local scopes, forms, slots_of = A.scopes or {}, A.forms, {}
for w, window in ipairs(windows) do
  slots_of[w] = window.form and forms[window.form].event_members
end
for _, scope in ipairs(scopes) do
  if scope.slots then
    scope.names = {}
    for i, slot in ipairs(scope.slots) do scope.names[i] = members[slot] end
  end
end

-- A `store` has the data in which the events of a target are counted: the rows of a ranking, or the
-- cells of a step together with the rows of its rolling window.
local stores, rolling_windows, of_window = {}, {}, {}

local function rolling_for(name, w, scope)
  if not of_window[name] then
    of_window[name] = {name = name, steps = w.steps, running = w.running, scope = scope and scope.name}
    rolling_windows[#rolling_windows + 1] = of_window[name]
  end
  return of_window[name]
end

for t, target in ipairs(targets) do
  local w, scope = windows[target[1]], scopes[target[3]]
  local name = in_scope(w.name, scope and scope.name or '')
  local store = {names = scope and scope.names or members, scope = scope}
  stores[t] = store
  if w.steps > 0 then
    store.rolling = rolling_for(name, w, scope)
    store.rolling.watched = store.rolling.watched or target[1] == watch
    store.step, store.tally = target[2], P .. 't:' .. name .. ':' .. text(target[2])
  else
    store.ranked, store.window, store.instance = ranking(name, target[2]), name, target[2]
  end
end

local reply = refusal_reply(rolling_windows) or tracking.refusal_reply() or feed_conflict() or
              position_conflict() or closing.refusal_reply(stores)
if reply then return cmsgpack.pack(reply) end

local function store_of(w, event)
  local route = A.routes[w]
  if type(route) == 'table' then route = route[event] end
  return stores[route]
end

-- Reads the members' rows of a refreshed window: those in the ranking that is being built, if the
-- current build has begun in this scope, and those in the shown ranking, if the window is watched.
-- A new scope has no older cells to build from, so its build is complete.
local function read_refreshed(rolling)
  if rolling.first_steps then return end
  rolling.first_steps, rolling.new_cell = {}, {}
  local build = current_build(window_of(rolling.name))
  if build and build.step == rolling.running_step then
    local at = rolling.running_step + 1
    if rolling.stored_step then at = build_progress(build, rolling.name) end
    rolling.build, rolling.build_step = build, at ~= 'clear' and at or nil
  end
  rolling.building = build ~= nil
  if rolling.build_step then
    rolling.forms = forms_of(rolling.prepared, rolling.names)
    rolling.rows = rows_of(rolling.forms, words)
  end
  if rolling.watched then
    rolling.shown_rows = rows_of(forms_of(rolling.live, rolling.names), words)
  end
end

-- Reads the rows of the members. A member has the same slot in all stores of its scope.
for _, store in ipairs(stores) do
  local names = store.names
  if store.ranked then
    store.forms = forms_of(store.ranked, names)
    store.rows = rows_of(store.forms, store.ranked.words)
    store.registered = next(store.rows.present) ~= nil
  else
    local cells = fetch('HMGET', store.tally, names)
    if B.best and not is_refreshed(store.rolling.name) then
      store.rows = {}
    else
      if scored then
        for slot = 1, #names do cells[slot] = cells[slot] and tonumber(cells[slot]) end
      end
      store.rows = rows_of(cells, words)
    end
    store.cells = cells
  end
end
for _, store in ipairs(stores) do
  local rolling, names = store.rolling, store.names
  if rolling and not rolling.names then
    for key, value in pairs(rolling_window(rolling, rolling.running)) do rolling[key] = value end
    rolling.names = names
  end
  if rolling and rolling.refreshed then
    read_refreshed(rolling)
  elseif rolling and not rolling.rows then
    rolling.forms = forms_of(rolling.live, names)
    rolling.rows = rows_of(rolling.forms, words)
    rolling.newest_steps = newest_steps(rolling, names, rolling.forms)
    rolling.candidate_lists = {}
    local candidates = candidates_of(rolling, names)
    for slot = 1, B.best and #names or 0 do
      rolling.candidate_lists[slot] = decode_candidates(candidates[slot], rolling.oldest_step)
    end
    rolling.step_changed, rolling.candidate_marks, rolling.new_cell = {}, {}, {}
  end
end
local new_rows = {}
for w = 1, #windows do new_rows[w] = {} end

-- Ids

local stored_ids, expired, remembered_before = {}, {}, 0

-- Returns the time at which an event was accepted. In event time each event has a time of its own.
local function accepted_at(event)
  return A.nows and A.nows[event] or A.now
end

-- Returns how many stored ids are still remembered at the time of an event.
local function remembered_at(event)
  return call('ZCOUNT', ids, '(' .. text(accepted_at(event) - A.forget), '+inf')
end

if A.ids then
  local most = text(math.max(1000, 2 * events))
  expired = call('ZRANGEBYSCORE', ids, '-inf', text(A.now - A.forget), 'LIMIT', '0', most)
  remembered_before = remembered_at(1)
  local keys, of = {}, {}
  for event = 1, events do
    if A.ids[event] then
      local member = members[event_members and event_members[event] or event]
      keys[#keys + 1] = string.char(#member) .. member .. A.ids[event]
      of[#keys] = event
    end
  end
  local scores = fetch('ZMSCORE', ids, keys)
  for i, event in ipairs(of) do stored_ids[event] = {keys[i], tonumber(scores[i] or '-inf')} end
end

local late = {}
for _, event in ipairs(A.late or {}) do late[event] = true end

-- The number of words that make up the score in the watched window.
local watched_words = watch > 0 and windows[watch].exponents and 2 or columns

-- Returns the empty results of a batch, which are filled in later: the code of each event, the ids
-- to add, and the watched scores before and after each event.
local function new_results()
  local results = {codes = {}, id_times = {}, added = {}, remembered = remembered_before,
                   times = {}, counted = 0, refused = false, before = {}, after = {}}
  for i = 1, watched_words do results.before[i], results.after[i] = {}, {} end
  return results
end

-- Returns whether no further id can be remembered. In event time ids can expire in the middle of a
-- batch.
local function is_full(results, event)
  if results.remembered >= A.most_ids and A.nows then
    results.remembered = remembered_at(event)
    for _, time in ipairs(results.times) do
      if time > accepted_at(event) - A.forget then results.remembered = results.remembered + 1 end
    end
  end
  return results.remembered >= A.most_ids
end

-- Returns the code with which an event is refused before it is counted; 0 if it is not refused.
local function refusal_code(results, event)
  local own = stored_ids[event]
  if own then
    if (results.id_times[own[1]] or own[2]) > accepted_at(event) - A.forget then return DUPLICATE end
    if not late[event] and is_full(results, event) then return FULL end
  end
  return late[event] and TOO_LATE or 0
end

-- Records the final code of an event.
local function record_result(results, event, code)
  results.codes[event] = code
  if code <= UNCHANGED then
    results.counted = results.counted + 1
    local own = stored_ids[event]
    if own then
      local added = results.added
      local time = accepted_at(event)
      added[#added + 1], added[#added + 2] = time, own[1]
      results.id_times[own[1]] = time
      if A.nows then results.times[#results.times + 1] = time end
      results.remembered = results.remembered + 1
    end
  elseif code ~= DUPLICATE then
    results.refused = true
  end
end

local function watched_rows(event)
  local store = watch > 0 and store_of(watch, event)
  if not store or not store.rolling then return store and store.rows end
  return store.rolling.shown_rows or store.rolling.rows
end
