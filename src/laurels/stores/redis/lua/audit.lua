-- audit(board, roll or nil, name, side, step, place, mend, built)
--   -> {'done', place, entries, difference or ''}
-- Compares a share of a ranking with what it follows from, member by member, so that writes in
-- between do not matter; with `mend` puts right what differs. What a member follows from is read in
-- one call: its cells are in as many tallies as the window has steps.
--
-- With `built` all that is of what a window that is refreshed has built, as far as that is. What it
-- shows follows from nothing that is there, but has to agree with itself.
-- side 'rows': every member stands where its form says; of a rolling window that is what the
--   tallies add up to, and, once the pass is complete, what is prepared follows from it
-- side 'cells': the same, of those members of the tally of a step that do not stand there
-- side 'entries': every entry in the sorted set is of a member that has that form
-- side 'scores': of a dense board, each distinct score has as many members as is said
-- side 'places': of a dense board, there is no other score among the distinct ones
-- Where a ranking that does not roll is stored twice, in the sorted set and in a hash, and the two
-- differ, the one is right that a single change of the other explains: a hash whose form has its entry
-- is, and all other entries of the member are strays; a hash whose form has no entry was changed, if
-- there is one of the member, and follows that; where there is none, the entry was lost. So entries are
-- looked at before rows.
-- What cannot be put right by what is there (the candidates of a member are gone, or the exact time
-- by which a `last` column goes) stays as it is, and is told.
if call('HGET', KEYS[1], 'ver') ~= B.version then return cmsgpack.pack({'stale'}) end

local rolled = A.roll and rolling(A.roll) or nil
local going = rolled and call('HGET', KEYS[1], 'place:' .. rolled.name)
if A.roll and (not rolled or going and string.find(going, '^gone:')) then
  return cmsgpack.pack({'done', '0', 0, ''})
end
local window, instance = string.match(A.name, '^(.*):([^:]*)$')
local ranked = rolled and rolled.live or ranking(window, tonumber(instance))
local built, through = rolled and A.built and build_of(window_of(rolled.name)), nil
if A.built then
  through = built and progress_of(built, rolled.name)
  if not through or through == 'clear' then return cmsgpack.pack({'done', '0', 0, ''}) end
  rolled, ranked = rolling(A.roll, built.step), rolled.prepared
end
local complete = rolled and not rolled.refreshed and call('HGET', KEYS[1], 'phase:' .. rolled.name) == '2'

-- How many members a call looks at, and how many cells.
local MEMBERS, CELLS = 100, 500
local most = MEMBERS
if rolled and rolled.candidates then
  most = 10
elseif rolled then
  most = math.max(1, math.min(MEMBERS, floor(CELLS / rolled.steps)))
end

-- What tallies add up to: the forms and newest steps of members.
local function from_tallies(names)
  local forms, newest = from_cells(rolled, names)
  for i = 1, #names do
    if forms[i] and not scored then forms[i] = forms[i] .. put(newest[i]) end
  end
  return forms, newest
end

-- Newest steps are those that are kept: a candidate that was beaten leaves none behind.
local function from_candidates(names, newest)
  local candidates, forms = candidates_of(rolled, names), {}
  for i = 1, #names do
    forms[i] = best_after(candidates[i] or '', rolled.leaving - 1, newest[i]) or nil
  end
  return forms, newest
end

-- What rows of members are due, and what is due to be prepared.
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

-- Whether a form of a ranking that does not roll may have been made by events.
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

-- The form that an entry tells, with what only the hash has of the member.
local function form_told(entry, form)
  local size = 8 * ranked.width
  if not B.stamped then return sub(entry, 1, size) end
  return form and #form == 8 * ranked.words and sub(entry, 1, size) .. sub(form, size + 1) or nil
end

-- Of a ranking that does not roll: an entry that its member's form does not have.
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

-- An entry whose member has no form is where one was lost, or a stray.
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

-- Of the members of a tally those that are not ranked: of the others the side 'rows' tells. Where
-- they are too many for a call, it is made again from the same place, when some have been put right.
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
