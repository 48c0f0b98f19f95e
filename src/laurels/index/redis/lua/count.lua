-- count(board, now, due, rolls, targets, routes, events…)
--   -> {'done', seq, codes, before, after, ranks before, ranks after}
-- Counts a batch as planned, event by event: in all windows that take it, or in none. Its argument
-- is told in batch.lua; before and after are lists a column, false for a member that is not there.

-- An event in one window

local function each(given, event) return type(given) == 'table' and given[event] or given end

local function draft_in(w, event, store, slot, values, stamp, at)
  local rolled, fading = rolls[w], windows[w]
  if fading.exponents then
    local value = values[1] - (values.away and values.away[1] or 0)
    draft_faded(store.rows, slot, value, each(fading.exponents, event),
                each(fading.mantissas, event), stamp, drafts[w])
    return true
  end
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
      rolled.lists[slot] = list
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

-- Its values; of totals that are set, `away` is what the member has in the window `all`.
local function read_values(event, slot)
  for i = 1, columns do values[i] = A.values[i][event] end
  if A.absolute and A.all > 0 then
    local rows = store_of(A.all, event).rows
    values.away = {}
    for i = 1, columns do values.away[i] = rows.there[slot] and rows.w[i][slot] or 0 end
  end
end

local function count(event, slot)
  read_values(event, slot)
  local at, stamp = each(ats, event), each(stamps, event)
  for w = 1, #windows do
    local store = store_of(w, event)
    if store and not draft_in(w, event, store, slot, values, stamp, at) then return OUT_OF_RANGE end
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

local function report(list, event, slot)
  if watch == 0 then return end
  local rows = watched_rows(event)
  local there = rows and rows.there[slot]
  for i = 1, watched_words do list[i][event] = there and rows.w[i][slot] or false end
end

local function one_by_one()
  local results = new_results()
  for event = 1, events do
    local slot = who and who[event] or event
    local code = verdict(results, event)
    report(results.before, event, slot)
    if code == 0 then code = count(event, slot) end
    report(results.after, event, slot)
    settle(results, event, code)
  end
  return results
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

local ranks_before = A.ranks and ranks() or false
local results = merged() or one_by_one()
local codes = results.codes

-- Writing

local function write_ranking(store)
  local names, olds, news, dirty = {}, {}, {}, store.rows.dirty
  for i = 1, #dirty do
    local slot = dirty[i]
    names[i], olds[i] = members[slot], store.forms[slot]
    news[i] = write(store.rows.w, slot, store.ranked.words)
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
  for step, slots in pairs(rolled.marks) do
    local here, gone = {}, {}
    for slot, said in pairs(slots) do
      if said then here[#here + 1], here[#here + 2] = members[slot], ''
      else gone[#gone + 1] = members[slot] end
    end
    send('HDEL', tally(rolled.name, step), gone)
    send('HSET', tally(rolled.name, step), here)
  end
end

local function write_rolling(rolled)
  local dirty, names, olds, news = rolled.rows.dirty, {}, {}, {}
  local newest, lists, moved = {}, {}, {}
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

if A.atomic and results.refused then
  for event = 1, events do
    if codes[event] <= UNCHANGED then codes[event] = ROLLED_BACK end
  end
  results.before, results.after, results.counted = {}, {}, 0
else
  send('ZREM', ids, expired)
  send('ZADD', ids, results.added)
  for _, store in ipairs(stores) do
    if store.ranked then write_ranking(store) elseif not B.best then write_cells(store) end
  end
  for _, rolled in pairs(rolls) do write_rolling(rolled) end
  if A.position then call('HSET', P .. 'p', A.position[1], A.position[2]) end
end
local ranks_after = A.ranks and ranks() or false
call('HSET', KEYS[1], 'now', text(A.now))
local seq = tell('counted', text(results.counted))
local reply = cmsgpack.pack({'done', seq, codes, results.before, results.after, ranks_before, ranks_after})
if answers then call('SET', answers, text(A.call[2]) .. ':' .. reply, 'EX', '60') end
return reply
