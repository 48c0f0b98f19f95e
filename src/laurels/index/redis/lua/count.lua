-- count(board, now, due, rolls, targets, routes, events…)
--   -> {'done', seq, codes, before, after, ranks before, ranks after}
-- Counts a batch as planned, event by event: in all windows that take it, or in none.
--
-- ARGV[1]  msgpack: board, now, due, rolls {name, steps, running}, targets {window, instance},
--   windows {name, steps, running, lows, highs} (steps 0: not rolling), routes {target or list of
--   targets, 0 refuses}, members (each once), who (places in them, or nil: event by event), values
--   (a list a column, signed), ats, stamps (a number or a list), ids (texts or false; or nil), late
--   (positions), absolute, atomic, all, watch, ranks, forget, most_ids, call {process, number}
-- before and after are lists a column, false for a member that is not there.
local APPLIED, UNCHANGED, OUT_OF_RANGE, DUPLICATE, TOO_LATE, FULL, ROLLED_BACK = 1, 2, 3, 4, 5, 6, 7

-- A call that comes again, since its answer was lost, is answered as it was.
local answers = A.call and P .. 'a:' .. A.call[1]
if answers then
  local kept = call('GET', answers)
  if kept then
    local number, reply = string.match(kept, '^(%d+):(.*)$')
    if tonumber(number) == A.call[2] then return reply end
  end
end
local no = refusal()
if no then return cmsgpack.pack(no) end

local windows, targets, members, who, watch = A.windows, A.targets, A.members, A.who, A.watch
local events = who and #who or #members
local ids = key('q')
key('s'); key('p'); key('i')

-- Where events go: the rows of a ranking, or the cells of a step beside the rows of its window.
local stores, rolls = {}, {}
for i, w in ipairs(windows) do
  if w.steps > 0 then
    rolls[i] = rolling(w, w.running)
    for step = rolls[i].leaving, B.best and w.running or 0 do tally(w.name, step) end
  end
end
for t, target in ipairs(targets) do
  local w = windows[target[1]]
  stores[t] = {window = target[1], index = t}
  if w.steps > 0 then
    stores[t].step, stores[t].tally = target[2], tally(w.name, target[2])
  else
    stores[t].ranked = ranking(w.name, target[2])
  end
end
guard()

local function store_of(w, event)
  local route = A.routes[w]
  if type(route) == 'table' then route = route[event] end
  return stores[route]
end

-- Reading: members have the same slot everywhere, so all are read from every store.
for _, store in ipairs(stores) do
  if store.ranked then
    store.forms = forms_of(store.ranked, members)
    store.rows = rows_of(store.forms, words)
  else
    local cells = fetch('HMGET', store.tally, members)
    if B.best then
      store.rows = {marks = {}}
    else
      if scored then
        for slot = 1, #members do cells[slot] = cells[slot] and tonumber(cells[slot]) end
      end
      store.rows = rows_of(cells, words)
    end
    store.cells = cells
  end
end
for w, rolled in pairs(rolls) do
  rolled.forms = forms_of(rolled.live, members)
  rolled.rows = rows_of(rolled.forms, words)
  rolled.steps_of = newest_of(rolled, members, rolled.forms)
  rolled.lists = candidates_of(rolled, members)
  rolled.moved = {}
  rolled.drafts, rolled.cell = {}, {}
end
local drafts = {}
for w = 1, #windows do drafts[w] = {} end

-- An event in one window

local function draft_in(w, store, slot, values, stamp, at)
  local rolled = rolls[w]
  local rows = rolled and rolled.rows or store.rows
  if not draft_row(rows, slot, values, stamp, at, B.least, B.most, drafts[w]) then return false end
  if not rolled or B.best then return true end
  local bounds = windows[w]
  return draft_row(store.rows, slot, values, stamp, at, bounds.lows, bounds.highs, rolled.cell)
end

local function count_rolling(w, rolled, store, slot, values, stamp)
  local written = false
  if B.best then
    local marks = {}
    local list = with_candidate(rolled.lists[slot], store.step, values, stamp, marks)
    if list then
      rolled.lists[slot], rolled.marks = list, rolled.marks or {}
      for step, said in pairs(marks) do
        rolled.marks[step] = rolled.marks[step] or {}
        rolled.marks[step][slot] = said
      end
      written = true
    end
  elseif rolled.cell.write then
    take(store.rows, slot, rolled.cell)
    written = true
  end
  local newest = rolled.steps_of[slot]
  if not rolled.rows.there[slot] or store.step > newest then
    rolled.steps_of[slot], rolled.moved[slot], written = store.step, true, true
  end
  if drafts[w].write then take(rolled.rows, slot, drafts[w]) end
  if written then mark(rolled.rows, slot) end
end

-- An event in all windows

local ats, stamps = A.ats, A.stamps
local values = {}

-- Its values; of an absolute one, for sums, the difference to the window `all`.
local function read_values(event, slot)
  for i = 1, columns do
    values[i] = A.values[i][event]
    if A.absolute and sums[i] and A.all > 0 then
      local rows = store_of(A.all, event).rows
      values[i] = values[i] - (rows.there[slot] and rows.w[i][slot] or 0)
    end
  end
end

local before, after_ = {}, {}
for i = 1, columns do before[i], after_[i] = {}, {} end

local function watched_rows(event)
  local store = watch > 0 and store_of(watch, event)
  return store and (rolls[watch] and rolls[watch].rows or store.rows)
end

local function report(list, event, slot)
  if watch == 0 then return end
  local rows = watched_rows(event)
  local there = rows and rows.there[slot]
  for i = 1, columns do list[i][event] = there and rows.w[i][slot] or false end
end

local function count(event, slot)
  read_values(event, slot)
  local at = type(ats) == 'table' and ats[event] or ats
  local stamp = type(stamps) == 'table' and stamps[event] or stamps
  for w = 1, #windows do
    local store = store_of(w, event)
    if store and not draft_in(w, store, slot, values, stamp, at) then return OUT_OF_RANGE end
  end
  local changed = false
  for w = 1, #windows do
    local store = store_of(w, event)
    if store then
      local draft = drafts[w]
      changed = changed or draft.changed
      if rolls[w] then
        count_rolling(w, rolls[w], store, slot, values, stamp)
      elseif draft.write then
        take(store.rows, slot, draft)
      end
    end
  end
  return changed and APPLIED or UNCHANGED
end

-- Ids

local forgotten, remembered, known, taken, added, expired = A.now - A.forget, 0, {}, {}, {}, {}
if A.ids then
  expired = call('ZRANGEBYSCORE', ids, '-inf', text(forgotten), 'LIMIT', '0', '1000')
  remembered = call('ZCOUNT', ids, '(' .. text(forgotten), '+inf')
  local keys, of = {}, {}
  for event = 1, events do
    if A.ids[event] then
      local member = members[who and who[event] or event]
      keys[#keys + 1] = string.char(#member) .. member .. A.ids[event]
      of[#keys] = event
    end
  end
  local found = fetch('ZMSCORE', ids, keys)
  for i, event in ipairs(of) do known[event] = {keys[i], tonumber(found[i] or '-inf')} end
end

-- The key under which an event's id is remembered, or what speaks against it.
local function id_key(event)
  local id, accepted = known[event][1], known[event][2]
  if accepted > forgotten or taken[id] then return DUPLICATE end
  if remembered >= A.most_ids then return FULL end
  return id
end

-- Ranks of the events' members in the watched window
local function ranks()
  local found, seen = {}, {}
  for event = 1, events do
    local slot = who and who[event] or event
    local store = store_of(watch, event)
    found[event] = -1
    if store then
      local ranked = rolls[watch] and rolls[watch].live or store.ranked
      local name = ranked.name .. '\0' .. slot
      if not seen[name] then
        seen[name] = rank_of(ranked, form_of(ranked, members[slot]), members[slot])
      end
      found[event] = seen[name]
    end
  end
  return found
end

local codes, late, refused, counted = {}, {}, false, 0
for _, event in ipairs(A.late) do late[event] = true end
local ranks_before = A.ranks and ranks() or false
for event = 1, events do
  local slot = who and who[event] or event
  local code, id = late[event] and TOO_LATE or 0, nil
  if known[event] then
    id = id_key(event)
    if id == DUPLICATE or (id == FULL and code == 0) then code = id end
  end
  report(before, event, slot)
  if code == 0 then
    code = count(event, slot)
    if id and code <= UNCHANGED then
      added[#added + 1], added[#added + 2] = A.now, id
      taken[id] = true
      remembered = remembered + 1
    end
  end
  report(after_, event, slot)
  codes[event] = code
  refused = refused or (code ~= DUPLICATE and code > UNCHANGED)
  if code <= UNCHANGED then counted = counted + 1 end
end

-- Writing

local function write_ranking(store)
  local names, olds, news, dirty = {}, {}, {}, store.rows.dirty
  for i = 1, #dirty do
    local slot = dirty[i]
    names[i], olds[i], news[i] = members[slot], store.forms[slot], write(store.rows.w, slot, words)
  end
  place(store.ranked, names, olds, news)
  call('SADD', P .. 'i', store.ranked.name)
end

local function write_cells(store)
  local args, dirty = {}, store.rows.dirty
  for i = 1, #dirty do
    local slot = dirty[i]
    local form = write(store.rows.w, slot, words)
    args[2 * i - 1], args[2 * i], store.cells[slot] = members[slot], form, form
  end
  send('HSET', store.tally, args)
end

local function write_candidates(rolled, dirty)
  local args = {}
  for _, slot in ipairs(dirty) do
    args[#args + 1], args[#args + 2] = members[slot], packed_candidates(rolled.lists[slot])
  end
  send('HSET', rolled.candidates, args)
  for step, slots in pairs(rolled.marks or {}) do
    local here, gone = {}, {}
    for slot, said in pairs(slots) do
      if said then here[#here + 1], here[#here + 2] = members[slot], ''
      else gone[#gone + 1] = members[slot] end
    end
    send('HDEL', tally(rolled.name, step), gone)
    send('HSET', tally(rolled.name, step), here)
  end
end

local function write_rolling(w, rolled)
  local dirty, names, olds, news, moved = rolled.rows.dirty, {}, {}, {}, {}
  local newest, cells, lists = {}, nil, {}
  for i = 1, #dirty do
    local slot = dirty[i]
    local form = write(rolled.rows.w, slot, words)
    newest[i] = rolled.steps_of[slot]
    names[i], olds[i], lists[i] = members[slot], rolled.forms[slot], rolled.lists[slot]
    if scored then
      if rolled.moved[slot] then moved[#moved + 1], moved[#moved + 2] = names[i], newest[i] end
    else
      form = form .. put(newest[i])
    end
    news[i] = form
  end
  place(rolled.live, names, olds, news)
  if scored then send('HSET', rolled.newest, moved) end
  if B.best then write_candidates(rolled, dirty) end
  prepare(rolled, names, news, newest, fetch('HMGET', rolled.left, names), lists)
  call('HSETNX', KEYS[1], 'run:' .. rolled.name, text(rolled.run))
end

if A.atomic and refused then
  for event = 1, events do
    if codes[event] <= UNCHANGED then codes[event] = ROLLED_BACK end
  end
  before, after_, counted = {}, {}, 0
else
  if #expired > 0 then call('ZREM', ids, unpack(expired)) end
  send('ZADD', ids, added)
  for _, store in ipairs(stores) do
    if store.ranked then write_ranking(store) elseif not B.best then write_cells(store) end
  end
  for w, rolled in pairs(rolls) do write_rolling(w, rolled) end
  if A.position then call('HSET', P .. 'p', A.position[1], A.position[2]) end
end
local ranks_after = A.ranks and ranks() or false
call('HSET', KEYS[1], 'now', text(A.now))
local seq = tell('counted', text(counted))
local reply = cmsgpack.pack({'done', seq, codes, before, after_, ranks_before, ranks_after})
if answers then call('SET', answers, text(A.call[2]) .. ':' .. reply, 'EX', '60') end
return reply
