-- count(board, now, due, rolling, targets, routes, events…)
--   -> {'done' or 'by_member', seq, codes, before, after, ranks before, ranks after, refresh_states,
--       greatest ranks before, greatest ranks after, whether passes are due}
--      | {'events_needed'} | {'hidden_not_ready', names of rankings}
-- Counts a batch as planned. Each event counts in all windows that accept it, or in none. batch.lua
-- describes the argument. `before` and `after` are the scores in the watched window before and
-- after each event, as a list for each column, with false for each event whose member was not
-- ranked. 'by_member' means that the caller sent sums: `before` and the ranks have an item for each
-- member instead of each event, `codes` and `after` are empty. 'events_needed' means that nothing
-- was counted, since the sums do not suffice; the caller has to send single events.

-- Counting an event in one window. Functions named compute_… compute the new row, and return false
-- if a total is out of range. In the new row, `changed` is true if answers show a difference, and
-- `needs_write` if anything has to be stored.

local function value_at(list, event) return type(list) == 'table' and list[event] or list end

local function compute_in_window(w, event, store, slot, values, stamp, at)
  local rolling, window = store.rolling, windows[w]
  if rolling and rolling.refreshed then
    return compute_row(store.rows, slot, values, stamp, at, window.lows, window.highs, new_rows[w])
  end
  if window.exponents then
    local value = values[1] - (values.baseline and values.baseline[1] or 0)
    local exponent, weight = value_at(window.exponents, event), value_at(window.mantissas, event)
    compute_decayed(store.rows, slot, value, exponent, weight, stamp, new_rows[w])
    return true
  end
  local rows = rolling and rolling.rows or store.rows
  if not compute_row(rows, slot, values, stamp, at, B.least, B.most, new_rows[w]) then return false end
  if not rolling or B.best then return true end
  return compute_row(store.rows, slot, values, stamp, at, window.lows, window.highs, rolling.new_cell)
end

local function count_rolling(w, rolling, store, slot, values, stamp)
  local written = false
  if B.best then
    local marks = {}
    local list = add_candidate(rolling.candidate_lists[slot], store.step, values, stamp, marks)
    if list then
      rolling.candidate_lists[slot] = list
      for step, mark in pairs(marks) do
        rolling.candidate_marks[step] = rolling.candidate_marks[step] or {}
        rolling.candidate_marks[step][slot] = mark
      end
      written = true
    end
  elseif rolling.new_cell.needs_write then
    set_row(store.rows, slot, rolling.new_cell)
    written = true
  end
  local newest = rolling.newest_steps[slot]
  if not rolling.rows.present[slot] or store.step > newest then
    rolling.newest_steps[slot], rolling.step_changed[slot], written = store.step, true, true
  end
  if new_rows[w].needs_write then set_row(rolling.rows, slot, new_rows[w]) end
  if written then mark_dirty(rolling.rows, slot) end
end

-- In a refreshed window only the cell is checked against the range. The ranking being built has no
-- bounds.
local LEAST, MOST = {}, {}
for i = 1, columns do LEAST[i], MOST[i] = -BIAS, BIAS end

local function count_refreshed(rolling, store, slot, values, stamp, at, new_row)
  if new_row.needs_write then set_row(store.rows, slot, new_row) end
  rolling.counted = true
  if not rolling.build_step then return end
  if rolling.rows.present[slot] then
    compute_row(rolling.rows, slot, values, stamp, at, LEAST, MOST, rolling.new_cell)
    if rolling.new_cell.needs_write then set_row(rolling.rows, slot, rolling.new_cell) end
  elseif store.step <= rolling.build_step then
    rolling.first_steps[slot] = math.min(store.step, rolling.first_steps[slot] or store.step)
  end
end

-- Counting an event in all windows

local ats, stamps = A.ats, A.stamps
local values = {}
local baselines = A.feed and A.absolute and A.all > 0 and {}

-- Returns the rows of the members in the window `all`. They are no target if this window takes none of the
-- events, since the board has ended.
local unchanged_totals
local function totals_of(event)
  local store = store_of(A.all, event)
  if store then return store.rows end
  if not unchanged_totals then
    local ranked = ranking(A.totals[1], A.totals[2])
    unchanged_totals = rows_of(forms_of(ranked, members), ranked.words)
  end
  return unchanged_totals
end

-- Reads the values of an event. If it sets a total, `values.baseline` is the member's total in the window
-- `all`.
local function read_values(event, slot)
  for i = 1, columns do values[i] = A.values[i][event] end
  if A.absolute and A.all > 0 then
    local rows = totals_of(event)
    values.baseline = {}
    for i = 1, columns do values.baseline[i] = rows.present[slot] and rows.w[i][slot] or 0 end
    if baselines then baselines[event] = values.baseline end
  elseif A.baselines then
    values.baseline = A.baselines[event] or nil
  end
end

local function count(event, slot)
  read_values(event, slot)
  local at, stamp = value_at(ats, event), value_at(stamps, event)
  for w = 1, #windows do
    local store, slots = store_of(w, event), slots_of[w]
    local own = slots and slots[event] or slot
    if store and not compute_in_window(w, event, store, own, values, stamp, at) then
      return OUT_OF_RANGE
    end
  end
  local changed, elsewhere = false, A.feed
  for w = 1, #windows do
    local store, slots = store_of(w, event), slots_of[w]
    if store then
      elsewhere = nil
      local own, new_row = slots and slots[event] or slot, new_rows[w]
      changed = changed or new_row.changed
      if store.rolling and store.rolling.refreshed then
        count_refreshed(store.rolling, store, own, values, stamp, at, new_row)
      elseif store.rolling then
        count_rolling(w, store.rolling, store, own, values, stamp)
      elseif new_row.needs_write then
        set_row(store.rows, own, new_row)
      end
    end
  end
  return (changed or elsewhere) and APPLIED or UNCHANGED
end

-- Returns the slot of an event in the watched window.
local function watched_slot(event, slot)
  local slots = slots_of[watch]
  return slots and slots[event] or slot
end

local function report_scores(list, event, slot)
  if watch == 0 then return end
  local rows = watched_rows(event)
  slot = watched_slot(event, slot)
  local present = rows and rows.present[slot]
  for i = 1, watched_words do list[i][event] = present and rows.w[i][slot] or false end
end

-- On a board that keeps changes, records after each event the member's entry in the recorded
-- windows and, if the event set a total, the value that was added; false for an event that did not
-- count.
local traced, added = {}, {}
for k in ipairs(A.changes and A.changes.windows or {}) do traced[k] = {} end
for i = 1, A.changes and A.changes.absolute and columns or 0 do added[i] = {} end

local function record_change(event, slot, counted)
  for k, w in ipairs(A.changes.windows) do
    local store = counted and store_of(w, event)
    local own = slots_of[w] and slots_of[w][event] or slot
    for i = 1, words do
      traced[k][i] = traced[k][i] or {}
      traced[k][i][event] = store and store.rows.w[i][own] or false
    end
  end
  for i, column in ipairs(added) do
    column[event] = counted and values[i] - (sums[i] and values.baseline and values.baseline[i] or 0)
  end
end

local function count_each_event()
  local results = new_results()
  for event = 1, events do
    local slot = event_members and event_members[event] or event
    local code = refusal_code(results, event)
    if baselines then baselines[event] = false end
    report_scores(results.before, event, slot)
    if code == 0 then code = count(event, slot) end
    if A.changes then record_change(event, slot, code <= UNCHANGED) end
    report_scores(results.after, event, slot)
    record_result(results, event, code)
  end
  return results
end

-- Returns the rank of each event's member in the watched window, -1 if it is not ranked. On a board
-- with a head it returns the least and the greatest possible ranks.
local function ranks()
  local event_ranks, seen, highs, seen_highs, searched = {}, {}, {}, {}, {}
  for event = 1, events do
    local slot = watched_slot(event, event_members and event_members[event] or event)
    local store = store_of(watch, event)
    event_ranks[event] = -1
    if store then
      local ranked = store.rolling and store.rolling.live or store.ranked
      local name = ranked.name .. '\0' .. slot
      if not seen[name] then
        local member = store.names[slot]
        local form = form_of(ranked, member)
        if (A.zeros or A.hidden) and not searched[ranked.name] then
          if A.hidden then zeros.leave_out(ranked, A.hidden) end
          if A.zeros then zeros.find(ranked, A.zeros) end
          searched[ranked.name] = ranked
        end
        if form and has_head(ranked) then
          local located = head.locate(ranked, form, member)
          seen[name], seen_highs[name] = located.rank, located.high
        else
          seen[name], seen_highs[name] = rank_of(ranked, form, member), -1
        end
      end
      event_ranks[event], highs[event] = seen[name], seen_highs[name]
    end
  end
  for _, ranked in pairs(searched) do zeros.forget(ranked) end
  return {event_ranks, head.sizes and highs or false}
end

local NO_RANKS = {false, false}
local ranks_before = A.ranks and ranks() or NO_RANKS
if zeros.not_ready then return cmsgpack.pack({'hidden_not_ready', zeros.not_ready}) end
zeros.is_late = true  -- from now on the batch is counted, so the call cannot be refused any more
local results = not A.changes and count_merged()
if not results and A.sums then return cmsgpack.pack({'events_needed'}) end
results = results or count_each_event()
local codes = results.codes

-- Writing

-- Adds a ranking to the set of existing rankings. A ranking of a scope is not added if it already
-- had a member of the batch, since it is then in the set.
local function register_ranking(store)
  local scope = store.scope
  if not scope then
    call('SADD', P .. 'i', store.ranked.name)
  elseif not store.registered then
    call('HSET', P .. 'i:' .. scope.name, store.ranked.name, '')
  end
end

local function write_ranking(store)
  local names, olds, news, dirty = {}, {}, {}, store.rows.dirty
  if store.scope and #dirty == 0 then return end
  for i = 1, #dirty do
    local slot = dirty[i]
    names[i], olds[i] = store.names[slot], store.forms[slot]
    news[i] = encode_form(store.rows.w, slot, store.ranked.words)
  end
  replace_forms(store.ranked, names, olds, news)
  register_ranking(store)
  if B.lives then expire(store.ranked, store.window, store.instance) end
end

local function write_cells(store)
  local args, dirty = {}, store.rows.dirty
  for i = 1, #dirty do
    local slot = dirty[i]
    local form = encode_form(store.rows.w, slot, words)
    args[2 * i - 1], args[2 * i], store.cells[slot] = store.names[slot], form, form
  end
  write_tally(store.tally, args)
end

local function write_candidates(rolling, names, candidates)
  local args = {}
  for i = 1, #names do args[2 * i - 1], args[2 * i] = names[i], candidates[i] end
  send('HSET', rolling.candidates, args)
  for step, slots in pairs(rolling.candidate_marks) do
    local here, gone = {}, {}
    for slot, mark in pairs(slots) do
      if mark then
        here[#here + 1], here[#here + 2] = rolling.names[slot], ''
      else
        gone[#gone + 1] = rolling.names[slot]
      end
    end
    send('HDEL', tally(rolling.name, step), gone)
    write_tally(tally(rolling.name, step), here)
  end
end

local new_fields = {}  -- fields to set in P m, most of them for new rolling windows

local function set_field(name, value)
  new_fields[#new_fields + 1], new_fields[#new_fields + 2] = name, value
end

local function write_rolling(rolling)
  local dirty, names, olds, news = rolling.rows.dirty, {}, {}, {}
  local newest, candidates, moved = {}, {}, {}
  if rolling.scope and #dirty == 0 then return end
  for i = 1, #dirty do
    local slot = dirty[i]
    local form = encode_form(rolling.rows.w, slot, words)
    newest[i] = rolling.newest_steps[slot]
    names[i], olds[i] = rolling.names[slot], rolling.forms[slot]
    if B.best then candidates[i] = encode_candidates(rolling.candidate_lists[slot]) end
    if scored then
      if rolling.step_changed[slot] then
        moved[#moved + 1], moved[#moved + 2] = names[i], newest[i]
      end
    else
      form = form .. encode_word(newest[i])
    end
    news[i] = form
  end
  replace_forms(rolling.live, names, olds, news)
  if scored then send('HSET', rolling.newest, moved) end
  if B.best then write_candidates(rolling, names, candidates) end
  prepare(rolling, names, news, newest, fetch('HMGET', rolling.oldest_tally, names), candidates)
  if not rolling.stored_step then
    set_field('run:' .. rolling.name, text(rolling.running_step))
  end
end

-- Updates the ranking that the current build of a refreshed window makes: writes the new rows of
-- the members in it, and adds the members that have got their first cell in a step that the build
-- has already reached.
local function write_built(rolling)
  local names, olds, news, late, first = {}, {}, {}, {}, nil
  for i, slot in ipairs(rolling.rows.dirty) do
    names[i], olds[i] = rolling.names[slot], rolling.forms[slot]
    news[i] = encode_form(rolling.rows.w, slot, words)
  end
  replace_forms(rolling.prepared, names, olds, news)
  for slot, step in pairs(rolling.first_steps) do
    late[#late + 1], first = rolling.names[slot], math.min(step, first or step)
  end
  if first then replace_forms(rolling.prepared, late, {}, (forms_from_cells(rolling, late, first))) end
end

local function write_refreshed(rolling)
  if not rolling.counted then return end
  local name = window_of(rolling.name)
  set_field('waits:' .. name, '1')
  if rolling.building then set_field('some:' .. name, '1') end
  if rolling.build_step then write_built(rolling) end
  if rolling.stored_step then return end
  set_field('run:' .. rolling.name, text(rolling.running_step))
  if rolling.build_step then
    set_field('built:' .. rolling.name, encode_progress(rolling.build, rolling.build_step, ''))
  end
end

-- Registers the new scopes among those to which this call writes.
local function register_scopes()
  local names, forms_of_names, seen = {}, {}, {}
  for _, store in ipairs(stores) do
    local rolling = store.rolling
    local scope, rows = store.scope, rolling and not rolling.refreshed and rolling.rows or store.rows
    if scope and not seen[scope.name] and #rows.dirty > 0 then
      names[#names + 1], seen[scope.name] = scope.name, true
      forms_of_names[#names] = forms[scope.form].name
    end
  end
  local marks = fetch('ZMSCORE', P .. 'o', names)
  local by_mark, by_form = {}, {}
  for i, name in ipairs(names) do
    if not marks[i] then
      local form = forms_of_names[i]
      by_mark[#by_mark + 1], by_mark[#by_mark + 2] = text(A.now), name
      by_form[form] = by_form[form] or {}
      table.insert(by_form[form], '0')
      table.insert(by_form[form], name)
    end
  end
  send('ZADD', P .. 'o', by_mark)
  for form, entries in pairs(by_form) do send('ZADD', P .. 'l:' .. form, entries) end
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
    if store.ranked then
      write_ranking(store)
    elseif store.rolling.refreshed or not B.best then
      write_cells(store)
    end
  end
  for _, rolling in ipairs(rolling_windows) do
    if rolling.refreshed then write_refreshed(rolling) else write_rolling(rolling) end
  end
  send('HSET', KEYS[1], new_fields)
  if forms then register_scopes() end
  if A.position then call('HSET', P .. 'p', unpack(A.position)) end
  if A.changes and results.counted + A.changes.count > 0 then
    record(results.counted + A.changes.count, A.now, cmsgpack.pack({codes, traced, added}))
  end
  if A.feed then append_to_feed(codes, baselines) end
  if A.spans then note_counted_entries(codes) end
  tracking.note_batch(stores, results.added)
end
local ranks_after = A.ranks and ranks() or NO_RANKS
call('HSET', KEYS[1], 'now', text(A.now))
local seq = append_change('counted', text(results.counted))
local reply = cmsgpack.pack({A.sums and 'by_member' or 'done', seq, codes, results.before, results.after,
                              ranks_before[1], ranks_after[1], refresh_states(), ranks_before[2],
                              ranks_after[2], head.is_due or false})
if answers then call('SET', answers, text(A.call[2]) .. ':' .. reply, 'EX', '60') end
return reply
