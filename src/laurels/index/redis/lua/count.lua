-- count(board, now, due, rolls, targets, routes, events…)
--   -> {'done', seq, codes, before, after, ranks before, ranks after}
-- Counts a batch as planned, event by event: in all windows that take it, or in none.
--
-- ARGV[1]  msgpack: board, now, due, rolls {name, steps, running}, targets {window, instance},
--   windows {name, rolling: {lows, highs} or false}, routes {target or list of targets, 0 refuses},
--   members, values (a list a column, signed), ats, stamps (a number or a list), ids (texts or
--   false; or nil), late (positions), absolute, atomic, all, watch, ranks, forget, most_ids
local APPLIED, UNCHANGED, OUT_OF_RANGE, DUPLICATE, TOO_LATE, FULL, ROLLED_BACK = 1, 2, 3, 4, 5, 6, 7

-- A repeat of the last call of a process is answered as that one was; an older one is not heard.
local CALL_MS = '600000'
local last_call = A.call and P .. 'o:' .. A.call[1]
if last_call then
  local kept = call('GET', last_call)
  if kept then
    local known = cmsgpack.unpack(kept)
    if known[1] == A.call[2] then return known[2] end
    if known[1] > A.call[2] then return redis.error_reply('ERR a later call was carried out') end
  end
end

local no = refusal()
if no then return no end

local windows, targets, now = A.windows, A.targets, A.now
local events = #A.members

-- Where a target is: a ranking, or the tally of a step.
local stores, open = {}, {}
for i, w in ipairs(windows) do
  if w.rolling then
    call('HSETNX', P .. 'm', 'run:' .. w.name, text(w.running))
    open[i] = rolling(w)
  end
end
for t, target in ipairs(targets) do
  local window = windows[target[1]]
  if window.rolling then
    stores[t] = {step = target[2], key = tally(window.name, target[2])}
  else
    stores[t] = ranking(window.name, target[2])
    call('SADD', P .. 'i', stores[t].name)
  end
end

local function store_of(w, event)
  local route = A.routes[w]
  if type(route) == 'table' then route = route[event] end
  return route > 0 and stores[route] or nil
end

-- The write rule: what an event makes of a member's row in one window.

local function within(lows, highs, row)
  for i = 1, columns do
    if row[i] < lows[i] or row[i] > highs[i] then return false end
  end
  return true
end

-- Keeps the better tuple, of equal ones the least stamp.
local function draft_best(old, values, stamp, draft)
  local order = old and 0 or -1
  local new = {}
  for i = 1, columns do
    if order == 0 and values[i] ~= old[i] then order = values[i] < old[i] and -1 or 1 end
    new[i] = values[i]
  end
  draft.changed = order < 0
  if tie ~= 0 then
    new[width] = tie * stamp
    if order == 0 and stamp < tie * old[width] then draft.changed = true end
  end
  draft.write, draft.new = draft.changed, new
end

-- Sums and last values, the greatest stamp; false when a value or total is out of range.
local function draft_running(old, values, stamp, at, lows, highs, draft)
  local new, kept, newest = {}, {}, at
  if old then newest = B.stamped and old[words] or tie * (old[width] or 0) end
  for i = 1, columns do
    new[i] = values[i]
    if ops[i] == 'sum' then
      new[i] = new[i] + (old and old[i] or 0)
    elseif old and at < newest then
      kept[i] = old[i]
    end
  end
  if not within(lows, highs, new) then return false end
  for i, value in pairs(kept) do new[i] = value end
  local changed = not old
  for i = 1, columns do changed = changed or new[i] ~= old[i] end
  if tie ~= 0 then
    if old then stamp = math.max(stamp, tie * old[width]) end
    new[width] = tie * stamp
    changed = changed or new[width] ~= old[width]
  end
  draft.new, draft.changed, draft.write = new, changed, changed
  if B.stamped then
    new[words] = math.max(at, newest)
    draft.write = draft.write or not old or new[words] ~= old[words]
  end
  return true
end

local function draft_entry(old, values, stamp, at, lows, highs, draft)
  if not B.best then return draft_running(old, values, stamp, at, lows, highs, draft) end
  if not within(lows, highs, values) then return false end
  draft_best(old, values, stamp, draft)
  return true
end

-- Candidates of best columns

-- Negative, 0 or positive as a row is better than a candidate, equal to it, or worse.
local function order_of(row, candidate)
  for i = 1, columns do
    if row[i] ~= candidate[i + 1] then return row[i] - candidate[i + 1] end
  end
  return 0
end

local function is_better(row, candidate)
  local order = order_of(row, candidate)
  if order ~= 0 then return order < 0 end
  return tie ~= 0 and tie * row[width] < tie * candidate[width + 1]
end

-- Takes an event into the member's candidates; whether anything is another.
local function add_candidate(rolled, member, step, row)
  local found, own, next_one = candidates_of(rolled, member), nil, nil
  for _, candidate in ipairs(found) do
    if candidate[1] == step then own = candidate end
    if candidate[1] > step and not next_one then next_one = candidate end
  end
  if own and not is_better(row, own) then return false end
  if not own and next_one and order_of(row, next_one) > 0 then return false end
  local new, kept, added = {step}, {}, false
  for i = 1, width do new[i + 1] = row[i] end
  for _, candidate in ipairs(found) do
    if candidate[1] >= step and not added then kept[#kept + 1], added = new, true end
    if candidate[1] < step and order_of(row, candidate) < 0 then
      hset(tally(rolled.name, candidate[1]), member, false)
    elseif candidate[1] ~= step then
      kept[#kept + 1] = candidate
    end
  end
  if not added then kept[#kept + 1] = new end
  hset(tally(rolled.name, step), member, '')
  keep_candidates(rolled, member, kept)
  return true
end

-- An event in one window

local function read_part(w, event, member)
  local store = store_of(w, event)
  if not store then return false end
  local part = {store = store, rolled = open[w] or nil}
  part.ranked = part.rolled and part.rolled.live or store
  part.row = call('HGET', part.ranked.k, member) or nil
  part.old = part.row and read(part.row, words + (part.rolled and 1 or 0)) or nil
  return part
end

-- Completes the draft of a live row by the member's newest step.
local function draft_newest(part)
  local draft, step = part.draft, part.store.step
  if not draft.write and part.old then
    draft.new = {}
    for i = 1, words do draft.new[i] = part.old[i] end
  end
  draft.new[words + 1] = math.max(step, part.old and part.old[words + 1] or step)
  draft.write = draft.write or not part.old or draft.new[words + 1] ~= part.old[words + 1]
end

local function draft_part(w, part, member, values, stamp, at)
  part.draft = {}
  if not draft_entry(part.old, values, stamp, at, B.lows, B.highs, part.draft) then return false end
  if not part.rolled then return true end
  draft_newest(part)
  if B.best then
    part.cell = values
    return true
  end
  local bounds, packed = windows[w].rolling, call('HGET', part.store.key, member)
  local cell = packed and read(packed, words) or nil
  part.cell = {}
  return draft_entry(cell, values, stamp, at, bounds[1], bounds[2], part.cell)
end

local function write_cell(part, member, stamp)
  if B.best then
    local row = {}
    for i = 1, columns do row[i] = part.cell[i] end
    if tie ~= 0 then row[width] = tie * stamp end
    return add_candidate(part.rolled, member, part.store.step, row)
  end
  if part.cell.write then hset(part.store.key, member, write(part.cell.new, words)) end
  return part.cell.write
end

local function write_part(part, member, stamp)
  local written = part.rolled and write_cell(part, member, stamp)
  local row = part.row
  if part.draft.write then
    row = write(part.draft.new, words + (part.rolled and 1 or 0))
    place(part.ranked, member, part.row, row)
  end
  if part.rolled and (written or part.draft.write) then prepare(part.rolled, member, row) end
end

-- An event in all windows

local function of_event(list, event) return type(list) == 'table' and list[event] or list end

-- Its values; of an absolute one, for sums, the difference to the window `all`.
local function values_of(event, parts)
  local values = {}
  for i = 1, columns do
    values[i] = A.values[i][event]
    if A.absolute and ops[i] == 'sum' and A.all > 0 then
      local old = parts[A.all].old
      values[i] = values[i] - (old and old[i] or 0)
    end
  end
  return values
end

local before, after_, watch = {}, {}, A.watch

local function report(event, part, counted)
  if watch == 0 then return end
  local old = part and part.old
  local new = counted and part and part.draft.write and part.draft.new or old
  local was, is = {}, {}
  for i = 1, columns do
    was[i], is[i] = old and text(old[i]) or '', new and text(new[i]) or ''
  end
  before[event], after_[event] = was, is
end

local function count(event)
  local member, parts = A.members[event], {}
  for w = 1, #windows do parts[w] = read_part(w, event, member) end
  local values = values_of(event, parts)
  local at, stamp = of_event(A.ats, event), of_event(A.stamps, event)
  for w = 1, #windows do
    if parts[w] and not draft_part(w, parts[w], member, values, stamp, at) then
      report(event, parts[watch], false)
      return OUT_OF_RANGE
    end
  end
  local changed = false
  for w = 1, #windows do
    if parts[w] then
      write_part(parts[w], member, stamp)
      changed = changed or parts[w].draft.changed
    end
  end
  report(event, parts[watch], true)
  return changed and APPLIED or UNCHANGED
end

-- Ids

local ids, forgotten, remembered = P .. 'q', text(A.now - A.forget), 0
if A.ids then
  local gone = call('ZRANGEBYSCORE', ids, '-inf', forgotten, 'LIMIT', '0', '1000')
  if #gone > 0 then call('ZREM', ids, unpack(gone)) end
  remembered = call('ZCOUNT', ids, '(' .. forgotten, '+inf')
end

-- The key under which an event's id is remembered, or what speaks against it.
local function id_key(event)
  local member = A.members[event]
  local key = string.char(#member) .. member .. A.ids[event]
  local accepted = tonumber(call('ZSCORE', ids, key) or '-inf')
  if accepted > A.now - A.forget then return DUPLICATE end
  if remembered >= A.most_ids then return FULL end
  return key
end

-- Ranks of the events' members in the watched window
local function ranks()
  local found, known = {}, {}
  for event = 1, events do
    local store, member = store_of(watch, event), A.members[event]
    local ranked = store and (open[watch] and open[watch].live or store)
    if ranked then
      local name = ranked.name .. '\0' .. member
      if not known[name] then
        known[name] = rank_of(ranked, call('HGET', ranked.k, member), member)
      end
      found[event] = known[name]
    else
      found[event] = -1
    end
  end
  return found
end

local codes, added, late, refused, counted = {}, {}, {}, false, 0
for _, event in ipairs(A.late) do late[event] = true end
local ranks_before = A.ranks and ranks() or false
for event = 1, events do
  local code, key = late[event] and TOO_LATE or 0, nil
  if A.ids and A.ids[event] then
    key = id_key(event)
    if key == DUPLICATE or (key == FULL and code == 0) then code = key end
  end
  if code == 0 then
    code = count(event)
    if key and code <= UNCHANGED then
      call('ZADD', ids, text(A.now), key)
      added[#added + 1] = key
      remembered = remembered + 1
    end
  elseif watch > 0 then
    report(event, read_part(watch, event, A.members[event]), false)
  end
  codes[event] = code
  refused = refused or (code ~= DUPLICATE and code > UNCHANGED)
  if code <= UNCHANGED then counted = counted + 1 end
end
local undone = journal and refused
if undone then
  undo()
  for _, key in ipairs(added) do call('ZREM', ids, key) end
  for event = 1, events do
    if codes[event] <= UNCHANGED then codes[event] = ROLLED_BACK end
  end
  before, after_, counted = {}, {}, 0
end
local ranks_after = A.ranks and ranks() or false
if A.position and not undone then call('HSET', P .. 'p', A.position[1], A.position[2]) end
call('HSET', P .. 'm', 'now', text(now))
local seq = call('HINCRBY', P .. 'm', 'seq', '1')
call('XADD', P .. 's', 'MAXLEN', '~', '10000', '*', 'seq', text(seq), 'counted', text(counted))
local reply = {'done', seq, codes, before, after_, ranks_before, ranks_after}
if last_call then call('SET', last_call, cmsgpack.pack({A.call[2], reply}), 'PX', CALL_MS) end
return reply
