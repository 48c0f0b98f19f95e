-- What `count` is given, and what it reads: the rows of a batch's members, wherever it goes.
--
-- ARGV[1]  msgpack: board, now, due, rolls {name, steps, running}, targets {window, instance},
--   windows {name, steps, running, lows, highs} (steps 0: not rolling; one in which scores fade has
--   exponents, mantissas: each a number or a list), routes {target or list of targets, 0 refuses},
--   members (each once), who (places in them, or nil: event by event), values
--   (a list a column, signed), ats, stamps (a number or a list), ids (texts or false; or nil), late
--   (positions), absolute, atomic, all, watch, ranks, forget, most_ids, call {token, number}
local APPLIED, UNCHANGED, OUT_OF_RANGE, DUPLICATE, TOO_LATE, FULL, ROLLED_BACK = 1, 2, 3, 4, 5, 6, 7

-- A call that comes again, since its answer was lost, is answered as it was; one that comes after a
-- later one of its process, since it was held up on its way, is not heard.
local answers = A.call and P .. 'a:' .. A.call[1]
if answers then
  local kept = call('GET', answers)
  if kept then
    local number, reply = string.match(kept, '^(%d+):(.*)$')
    if tonumber(number) == A.call[2] then return reply end
    if tonumber(number) > A.call[2] then return redis.error_reply('ERR a later call was made') end
  end
end
local no = refusal()
if no then return cmsgpack.pack(no) end

local windows, targets, members, who, watch = A.windows, A.targets, A.members, A.who, A.watch
local events = who and #who or #members
local ids = P .. 'q'

-- Where events go: the rows of a ranking, or the cells of a step beside the rows of its window.
local stores, rolls = {}, {}
for i, w in ipairs(windows) do
  if w.steps > 0 then rolls[i] = rolling(w, w.running) end
end
for t, target in ipairs(targets) do
  local w = windows[target[1]]
  stores[t] = {}
  if w.steps > 0 then
    stores[t].step, stores[t].tally = target[2], tally(w.name, target[2])
  else
    stores[t].ranked = ranking(w.name, target[2])
  end
end

local function store_of(w, event)
  local route = A.routes[w]
  if type(route) == 'table' then route = route[event] end
  return stores[route]
end

-- Reading: members have the same slot everywhere, so all are read from every store.
for _, store in ipairs(stores) do
  if store.ranked then
    store.forms = forms_of(store.ranked, members)
    store.rows = rows_of(store.forms, store.ranked.words)
  else
    local cells = fetch('HMGET', store.tally, members)
    if B.best then
      store.rows = {}
    else
      if scored then
        for slot = 1, #members do cells[slot] = cells[slot] and tonumber(cells[slot]) end
      end
      store.rows = rows_of(cells, words)
    end
    store.cells = cells
  end
end
for _, rolled in pairs(rolls) do
  rolled.forms = forms_of(rolled.live, members)
  rolled.rows = rows_of(rolled.forms, words)
  rolled.steps_of = newest_of(rolled, members, rolled.forms)
  rolled.lists = candidates_of(rolled, members)
  rolled.moved, rolled.marks, rolled.cell = {}, {}, {}
end
local drafts = {}
for w = 1, #windows do drafts[w] = {} end

-- Ids

local forgotten, known, expired, remembered_before = A.now - A.forget, {}, {}, 0
if A.ids then
  local most = text(math.max(1000, 2 * events))
  expired = call('ZRANGEBYSCORE', ids, '-inf', text(forgotten), 'LIMIT', '0', most)
  remembered_before = call('ZCOUNT', ids, '(' .. text(forgotten), '+inf')
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

local late = {}
for _, event in ipairs(A.late) do late[event] = true end

-- How many words are the score in the watched window.
local watched_words = watch > 0 and windows[watch].exponents and 2 or columns

-- What a batch has come to: the verdicts, the ids it adds, the watched scores event by event.
local function new_results()
  local results = {codes = {}, taken = {}, added = {}, remembered = remembered_before,
                   counted = 0, refused = false, before = {}, after = {}}
  for i = 1, watched_words do results.before[i], results.after[i] = {}, {} end
  return results
end

-- What speaks against an event before it is counted, 0 for nothing.
local function verdict(results, event)
  local own = known[event]
  if own then
    if own[2] > forgotten or results.taken[own[1]] then return DUPLICATE end
    if not late[event] and results.remembered >= A.most_ids then return FULL end
  end
  return late[event] and TOO_LATE or 0
end

-- Notes the final word on an event.
local function settle(results, event, code)
  results.codes[event] = code
  if code <= UNCHANGED then
    results.counted = results.counted + 1
    local own = known[event]
    if own then
      local added = results.added
      added[#added + 1], added[#added + 2] = A.now, own[1]
      results.taken[own[1]] = true
      results.remembered = results.remembered + 1
    end
  elseif code ~= DUPLICATE then
    results.refused = true
  end
end

local function watched_rows(event)
  local store = watch > 0 and store_of(watch, event)
  return store and (rolls[watch] and rolls[watch].rows or store.rows)
end
