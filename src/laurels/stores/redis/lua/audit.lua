-- audit(board, roll or nil, name, side, step, place, mend, built)
--   -> {'done', place, entries, difference or ''}
-- Compares a share of a ranking with the data it is derived from, and with `mend` repairs what
-- differs. It compares one member at a time, so writes between two calls do no harm. Everything about
-- a member is read in one call: its cells are in as many tallies as the window has steps.
--
-- With `built` it checks what the current build of a refreshed window has ranked so far. The ranking
-- that such a window shows cannot be derived from stored data, so it is only checked for consistency.
-- side 'rows': the entry of each member agrees with its form; in a rolling window the form is the
--   total of the tallies and, once the pass is complete, the prepared ranking follows from it
-- side 'cells': the same, for members of one step's tally that are not in the ranking
-- side 'entries': each entry of the sorted set belongs to a member with that form
-- side 'scores': on a dense board, the stored number of members of each distinct score is right
-- side 'places': on a dense board, the set of distinct scores has no others
-- In the prefixed layout a calendar ranking is stored twice, in the sorted set and in a hash. If the two
-- differ, the smallest change that explains it is assumed. If the form in the hash has its entry, the
-- hash is right and any other entry of the member is removed. If the form has no entry, but the member
-- has another one, the hash takes the form of that entry. If the member has no entry, the entry was
-- lost. Therefore entries are checked before rows.
-- A difference that the stored data does not suffice to repair (the candidates of a member are gone, or
-- the exact time that decides a `last` column) is left as it is and reported.
if call('HGET', KEYS[1], 'ver') ~= B.version then return cmsgpack.pack({'definition_outdated'}) end

local rolled = A.roll and rolling(A.roll) or nil
local going = rolled and call('HGET', KEYS[1], 'place:' .. rolled.name)
if A.roll and (not rolled or going and string.find(going, '^gone:')) then
  return cmsgpack.pack({'done', '0', 0, ''})
end
local window, instance = string.match(A.name, '^(.*):([^:]*)$')
local ranked = rolled and rolled.live or ranking(window, tonumber(instance))
local built, through = rolled and A.built and current_build(window_of(rolled.name)), nil
if A.built then
  through = built and build_progress(built, rolled.name)
  if not through or through == 'clear' then return cmsgpack.pack({'done', '0', 0, ''}) end
  rolled, ranked = rolling(A.roll, built.step), rolled.prepared
end
local complete = rolled and not rolled.refreshed and call('HGET', KEYS[1], 'phase:' .. rolled.name) == '2'

-- How many members, and how many cells, one call looks at.
local MEMBERS, CELLS = 100, 500
local most = MEMBERS
if rolled and rolled.candidates then
  most = 10
elseif rolled then
  most = math.max(1, math.min(MEMBERS, floor(CELLS / rolled.steps)))
end

-- Returns the forms and newest steps of members, added up from the tallies.
local function from_tallies(names)
  local forms, newest = from_cells(rolled, names)
  for i = 1, #names do
    if forms[i] and not scored then forms[i] = forms[i] .. put(newest[i]) end
  end
  return forms, newest
end

-- Returns the forms of members from their candidates, and the newest steps. These are the stored
-- ones: they cannot be derived, since a candidate that was beaten is not kept.
local function from_candidates(names, newest)
  local candidates, forms = candidates_of(rolled, names), {}
  for i = 1, #names do
    forms[i] = best_after(candidates[i] or '', rolled.leaving - 1, newest[i]) or nil
  end
  return forms, newest
end

-- Returns the forms that members should have, those they should have in the prepared ranking, and their
-- newest steps.
local function due_of(names, forms)
  if not rolled or rolled.refreshed then return built and from_cells(rolled, names) or forms end
  local newest = newest_of(rolled, names, forms)
  local due
  if B.best then due = from_candidates(names, newest) else due, newest = from_tallies(names) end
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

-- Compares the stored number of members of a score with the actual one.
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

-- Whether events can have produced this form in a calendar ranking.
local function is_possible(form)
  if form ~= form or form < 0 and #units > 1 or form ~= floor(form) then return false end
  local w = {}
  for i = 1, words do w[i] = {} end
  read(form, w, 1, words)
  for i = 1, columns do
    if w[i][1] < B.least[i] or w[i][1] > B.most[i] then return false end
  end
  return true
end

local function judge_rows(names)
  local forms = forms_of(ranked, names)
  local due, prepared, newest = due_of(names, forms)
  local difference = judge(ranked, names, forms, due)
  for i, member in ipairs(scored and not rolled and names or {}) do
    if forms[i] and not is_possible(forms[i]) then difference = difference or member end
  end
  if newest and scored and A.mend then
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

-- Returns the form of an entry, completed with the words that only the hash has, nil if these are
-- missing.
local function form_told(entry, form)
  local size = 8 * ranked.width
  if not B.stamped then return sub(entry, 1, size) end
  return form and #form == 8 * ranked.words and sub(entry, 1, size) .. sub(form, size + 1) or nil
end

-- Repairs an entry of a calendar ranking that does not match its member's form.
local function mend_entry(entry, member, form)
  local own = form and #form >= 8 * ranked.width and entry_of(ranked, form, member)
  if own and own ~= entry and call('ZSCORE', ranked.r, own) then
    call('ZREM', ranked.r, entry)
    return true
  end
  local told = form_told(entry, form)
  if not told then return false end
  call('HSET', ranked.k, member, told)
  call('ZADD', ranked.r, '0', entry)
  return true
end

local function agrees(entry, member, form)
  if not form or entry_of(ranked, form, member) ~= entry or not stands(ranked, form, member) then
    return false
  end
  return rolled ~= nil or #form == 8 * ranked.words
end

-- Where the member of an entry has no form, either the form was lost or the entry should not exist.
local function judge_entries(entries)
  for _, entry in ipairs(entries) do
    local member = sub(entry, 8 * ranked.width + 1)
    local form = form_of(ranked, member)
    if not agrees(entry, member, form) then
      if not A.mend or (not form and B.stamped) then return member end
      if not rolled and not built then
        if not mend_entry(entry, member, form) then return member end
      elseif form or rolled and not rolled.refreshed or built then
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

-- Checks the members of a tally that are not ranked; the side 'rows' checks the others. If there are too
-- many for one call, the caller repeats it from the same place, after some have been repaired.
local function judge_cells(names)
  local forms, lost = forms_of(ranked, names), {}
  for i, name in ipairs(names) do
    if not forms[i] and #lost <= most then lost[#lost + 1] = name end
  end
  local again = #lost > most
  if again then lost[#lost] = nil end
  return #lost > 0 and judge_rows(lost) or nil, again
end

local function share(command, from, limit) return share_of(command, from, A.place, limit, limit) end

local names, after_, difference, again
local seen = 0
if A.side == 'scores' then
  names, after_ = share('HSCAN', ranked.n, MEMBERS)
  difference = judge_scores(names)
elseif A.side == 'places' then
  names, after_ = share('ZSCAN', ranked.d, MEMBERS)
  difference = judge_scores(names)
elseif A.side == 'cells' and (A.step < rolled.leaving or through and A.step >= through) then
  after_ = '0'
elseif A.side == 'cells' then
  names, after_ = share('HSCAN', tally(rolled.name, A.step), MEMBERS)
  difference, again = judge_cells(names)
elseif A.side == 'rows' then
  if scored then
    names, after_ = share('ZSCAN', ranked.r, most)
  else
    names, after_ = share('HSCAN', ranked.k, most)
  end
  difference, seen = judge_rows(names), #names
else
  names, after_ = share('ZSCAN', ranked.r, MEMBERS)
  difference, seen = judge_entries(names), #names
end
return cmsgpack.pack({'done', again and A.place or after_, seen, difference or ''})
