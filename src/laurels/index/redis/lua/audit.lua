-- audit(board, roll or nil, name, side, step, cursor, mend)
--   -> {'done', cursor, entries, difference or ''}
-- Compares a share of a ranking with what it follows from, member by member, so that writes in
-- between do not matter; with `mend` puts right what differs.
--
-- side 'rows': every member stands where its form says; of a rolling window that is what the
--   tallies add up to, and, once the pass is complete, what is prepared follows from it
-- side 'cells': the same, of the members of the tally of a step
-- side 'entries': every entry in the sorted set is of a member that has that form
-- side 'scores': of a dense board, each distinct score has as many members as is said
-- side 'places': of a dense board, there is no other score among the distinct ones
-- What cannot be put right by what is there (the candidates of a member are gone, or the exact time
-- by which a `last` column goes) stays as it is, and is told.
if call('HGET', KEYS[1], 'ver') ~= B.version then return cmsgpack.pack({'stale'}) end

local rolled = A.roll and rolling(A.roll) or nil
if A.roll and not rolled then return cmsgpack.pack({'done', '0', 0, ''}) end
local window, instance = string.match(A.name, '^(.*):([^:]*)$')
local ranked = rolled and rolled.live or ranking(window, tonumber(instance))
local complete = rolled and call('HGET', KEYS[1], 'phase:' .. rolled.name) == '2'

-- What tallies add up to: the forms and newest steps of members.
local function from_cells(names)
  local rows, newest, forms = rows_of({}, words), {}, {}
  local w, there = rows.w, rows.there
  for step = rolled.leaving, rolled.run do
    local cells = fetch('HMGET', tally(rolled.name, step), names)
    if scored then
      for i = 1, #names do cells[i] = cells[i] and tonumber(cells[i]) end
    end
    local step_rows = rows_of(cells, words)
    for i = 1, #names do
      if cells[i] then
        for c = 1, words do
          local own = step_rows.w[c][i]
          if c <= columns and sums[c] and there[i] then own = own + w[c][i] end
          w[c][i] = own
        end
        there[i], newest[i] = true, step
      end
    end
  end
  for i = 1, #names do
    forms[i] = there[i] and write(w, i, words) or false
    if forms[i] and not scored then forms[i] = forms[i] .. put(newest[i]) end
  end
  return forms, newest
end

-- Newest steps are those that are kept: a candidate that was beaten leaves none behind.
local function from_candidates(names, newest)
  local lists, forms = candidates_of(rolled, names), {}
  for i = 1, #names do
    if #lists[i] > 0 then forms[i] = best_after(lists[i], rolled.leaving - 1, newest[i]) end
  end
  return forms, newest
end

-- What rows of members are due, and what is due to be prepared.
local function due_of(names, forms)
  if not rolled then return forms, nil end
  local newest = newest_of(rolled, names, forms)
  local due
  if B.best then due = from_candidates(names, newest) else due, newest = from_cells(names) end
  local cells = fetch('HMGET', rolled.left, names)
  return due, prepared_forms(rolled, due, newest, cells, candidates_of(rolled, names)), newest
end

local function stands(of, form, member)
  if scored then return true end
  return not form or call('ZSCORE', of.r, entry_of(of, form, member)) == '0'
end

local function count_at(field)
  if scored then
    return call('ZCOUNT', ranked.r, field, '(' .. text(tonumber(field) + units[columns]))
  end
  return call('ZLEXCOUNT', ranked.r, '[' .. field, '(' .. after(field))
end

local function said_of(field) return 'the score ' .. (scored and field or text(get(field, 1))) end

-- Compares how many members are said to have a score with how many do.
local function judge_score(field)
  local due, said = count_at(field), tonumber(call('HGET', ranked.n, field) or '0')
  local place = call('ZSCORE', ranked.d, field)
  local placed = place == (scored and field or '0')
  if due == said and placed == (due > 0) and (place ~= false) == (due > 0) then return nil end
  if not A.mend then return said_of(field) end
  if due > 0 then
    call('HSET', ranked.n, field, text(due))
    call('ZADD', ranked.d, scored and field or '0', field)
  else
    call('HDEL', ranked.n, field)
    call('ZREM', ranked.d, field)
  end
  return nil
end

local function judge_scores(fields)
  for _, field in ipairs(fields) do
    local difference = judge_score(field)
    if difference then return difference end
  end
  return nil
end

local function judge(of, names, forms, due)
  for i, member in ipairs(names) do
    if forms[i] ~= due[i] or not stands(of, forms[i], member) then
      if not A.mend or due[i] == nil then return member end
      if not scored and forms[i] then call('ZREM', of.r, entry_of(of, forms[i], member)) end
      if forms[i] and forms[i] == due[i] then
        call('ZADD', of.r, '0', entry_of(of, due[i], member))
      else
        place(of, {member}, {forms[i]}, {due[i]})
      end
    end
  end
  return nil
end

local function judge_rows(names)
  local forms = forms_of(ranked, names)
  local due, prepared, newest = due_of(names, forms)
  local difference = judge(ranked, names, forms, due)
  if rolled and scored and A.mend then
    for i, member in ipairs(names) do
      if newest[i] then call('HSET', rolled.newest, member, newest[i]) end
    end
  end
  if complete and not difference then
    difference = judge(rolled.prepared, names, forms_of(rolled.prepared, names), prepared)
  end
  if B.dense and not difference then
    for i, form in ipairs(forms_of(ranked, names)) do
      if form then
        local score = score_of(ranked, form)
        difference = difference or judge_score(scored and text(score) or score)
      end
    end
  end
  return difference
end

-- An entry whose member has no form is where one was lost, or a stray.
local function judge_entries(entries)
  for _, entry in ipairs(entries) do
    local member = sub(entry, 8 * ranked.width + 1)
    local form = form_of(ranked, member)
    if not form or entry_of(ranked, form, member) ~= entry or not stands(ranked, form, member) then
      if not A.mend or (not form and B.stamped) then return member end
      if form or rolled then
        call('ZREM', ranked.r, entry)
        if form then call('ZADD', ranked.r, '0', entry_of(ranked, form, member)) end
      else
        call('HSET', ranked.k, member, sub(entry, 1, 8 * ranked.width))
        call('ZADD', ranked.r, '0', entry)
      end
    end
  end
  return nil
end

local function every_other(list)
  local found = {}
  for i = 1, #list, 2 do found[#found + 1] = list[i] end
  return found
end

local found, difference, seen
if A.side == 'scores' then
  found = call('HSCAN', ranked.n, A.cursor, 'COUNT', '100')
  difference, seen = judge_scores(every_other(found[2])), 0
elseif A.side == 'places' then
  found = call('ZSCAN', ranked.d, A.cursor, 'COUNT', '100')
  difference, seen = judge_scores(every_other(found[2])), 0
elseif A.side == 'cells' then
  found = call('HSCAN', tally(rolled.name, A.step), A.cursor, 'COUNT', '100')
  difference, seen = judge_rows(every_other(found[2])), 0
elseif A.side == 'rows' and not scored then
  found = call('HSCAN', ranked.k, A.cursor, 'COUNT', '100')
  difference, seen = judge_rows(every_other(found[2])), #found[2] / 2
else
  found = call('ZSCAN', ranked.r, A.cursor, 'COUNT', '100')
  local names = every_other(found[2])
  seen = #names
  if A.side == 'rows' then difference = judge_rows(names) else difference = judge_entries(names) end
end
return cmsgpack.pack({'done', found[1], seen, difference or ''})
