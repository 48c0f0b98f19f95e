-- audit(board, window or nil, name, check, step, cursor, repair, built)
--   -> {'done', cursor, entries, difference or ''}
-- Compares a share of a ranking with the data it is derived from, and with `repair` corrects
-- differences. It compares one member at a time, so writes between two calls do no harm. All data
-- of a member are read in one call; its cells may be in as many tallies as the window has steps.
--
-- With `built`, it checks the ranking that the current build of a refreshed window makes, for the
-- members that the build has already ranked. The ranking that such a window shows cannot be derived
-- from stored data, so it is only checked for consistency, like a ranking that is closed.
-- check 'rows': the entry of each member agrees with its form; in a rolling window the form is the
--   total of the tallies; once the pass is complete, the prepared ranking follows from the forms
-- check 'cells': like 'rows', for members that have a cell in one step's tally but are not in the ranking
-- check 'entries': each entry of the sorted set belongs to a member with that form
-- check 'score_counts': on a dense board, the stored number of members of each distinct score is right
-- check 'distinct_scores': on a dense board, each stored distinct score is the score of a member
-- check 'hidden_entries': each entry of a hidden member that is kept apart is the entry of this member
-- check 'hidden_members': the entry of each ranked hidden member is kept apart. With `repair` the entries are
--   forgotten if any of them is wrong, and the next reader makes them anew (see hidden_entries.lua)
-- In the prefixed layout a calendar ranking is stored twice, in the sorted set and in a hash. If the two
-- differ, the smallest damage that explains the difference is repaired. If the sorted set has the entry
-- that belongs to the form in the hash, any other entry of the member is removed. If it only has another
-- entry of the member, the hash gets the form of that entry. If it has no entry of the member, the entry
-- is added. Therefore entries are checked before rows.
-- A difference that cannot be repaired from stored data (the candidates of a member are lost, or the
-- exact time that decides a `last` column) is left unchanged and reported.
if call('HGET', KEYS[1], 'ver') ~= B.version then return cmsgpack.pack({'definition_outdated'}) end

head.use(call('HGET', KEYS[1], 'heads'))
local rolling = A.window and rolling_window(A.window) or nil
local progress = rolling and call('HGET', KEYS[1], 'place:' .. rolling.name)
if A.window and (not rolling or progress and string.find(progress, '^gone:')) then
  return cmsgpack.pack({'done', '0', 0, ''})
end
local window, instance = string.match(A.name, '^(.*):([^:]*)$')
local ranked = rolling and rolling.live or ranking(window, tonumber(instance))
local build, built_to = rolling and A.built and current_build(window_of(rolling.name)), nil
if A.built then
  built_to = build and build_progress(build, rolling.name)
  if not built_to or built_to == 'clear' then return cmsgpack.pack({'done', '0', 0, ''}) end
  rolling, ranked = rolling_window(A.window, build.step), rolling.prepared
end
-- The ranking at the end of the board is the last one of a rolling window. Once it is closed, the cells of members that
-- are removed later are gone, so it cannot be derived from them, either.
local closed = rolling and tonumber(call('HGET', KEYS[1], 'closed:' .. window_of(rolling.name)) or nil)
local is_derived = rolling and not rolling.refreshed and not (closed and rolling.running_step <= closed)
local complete = is_derived
  and call('HGET', KEYS[1], 'phase:' .. rolling.name) == '2'

-- The maximum numbers of members and of cells that one call checks.
local MEMBERS_MOST, CELLS_MOST = 100, 500
local limit = MEMBERS_MOST
if rolling and rolling.candidates then
  limit = 10
elseif rolling then
  limit = math.max(1, math.min(MEMBERS_MOST, floor(CELLS_MOST / rolling.steps)))
end

-- Returns the forms of members, added up from the tallies, and their newest steps.
local function expected_from_tallies(names)
  local forms, newest = forms_from_cells(rolling, names)
  for i = 1, #names do
    if forms[i] and not scored then forms[i] = forms[i] .. encode_word(newest[i]) end
  end
  return forms, newest
end

-- Returns the forms of members, derived from their candidates, and their newest steps. The newest
-- steps are the stored ones: they cannot be derived, because a candidate is removed once a later
-- one has beaten it.
local function expected_from_candidates(names, newest)
  local candidates, forms = candidates_of(rolling, names), {}
  for i = 1, #names do
    forms[i] = best_after(candidates[i] or '', rolling.oldest_step - 1, newest[i]) or nil
  end
  return forms, newest
end

-- Returns the forms that members should have in the live ranking and in the prepared ranking, and
-- their newest steps.
local function expected_forms(names, forms)
  if not is_derived then return build and forms_from_cells(rolling, names) or forms end
  local newest = newest_steps(rolling, names, forms)
  local expected
  if B.best then
    expected = expected_from_candidates(names, newest)
  else
    expected, newest = expected_from_tallies(names)
  end
  local cells = fetch('HMGET', rolling.oldest_tally, names)
  local prepared = prepared_forms(rolling, expected, newest, cells, candidates_of(rolling, names))
  return expected, prepared, newest
end

local function has_entry(of, form, member)
  if scored then return true end
  return not form or call('ZSCORE', of.r, entry_of(of, form, member)) == '0'
end

local function count_at(field)
  if scored then
    return call('ZCOUNT', ranked.r, field, '(' .. text(tonumber(field) + units[columns]))
  end
  return call('ZLEXCOUNT', ranked.r, '[' .. field, '(' .. after_prefix(field))
end

local function score_label(field)
  return 'the score ' .. (scored and field or text(decode_word(field, 1)))
end

-- Compares the stored number of members of a score with the actual one.
local function check_score(field)
  local expected, stored = count_at(field), tonumber(call('HGET', ranked.n, field) or '0')
  local position = call('ZSCORE', ranked.d, field)
  local listed = position ~= false
  local in_place = position == (scored and field or '0')
  if expected == stored and in_place == (expected > 0) and listed == (expected > 0) then return nil end
  if not A.repair then return score_label(field) end
  if expected > 0 then
    call('HSET', ranked.n, field, text(expected))
    call('ZADD', ranked.d, scored and field or '0', field)
  else
    call('HDEL', ranked.n, field)
    call('ZREM', ranked.d, field)
  end
  return nil
end

local function check_scores(fields)
  for _, field in ipairs(fields) do
    local difference = check_score(field)
    if difference then return difference end
  end
  return nil
end

local function check_forms(of, names, forms, expected)
  for i, member in ipairs(names) do
    if forms[i] ~= expected[i] or not has_entry(of, forms[i], member) then
      if not A.repair or expected[i] == nil then return member end
      hidden_entries.forget(of)
      if not scored and forms[i] then call('ZREM', of.r, entry_of(of, forms[i], member)) end
      if forms[i] and forms[i] == expected[i] then
        call('ZADD', of.r, '0', entry_of(of, expected[i], member))
      else
        replace_forms(of, {member}, {forms[i]}, {expected[i]})
      end
    end
  end
  return nil
end

-- Returns whether events can have produced this form in a calendar ranking.
local function is_possible(form)
  if form ~= form or form < 0 and #units > 1 or form ~= floor(form) then return false end
  local w = {}
  for i = 1, words do w[i] = {} end
  decode_form(form, w, 1, words)
  for i = 1, columns do
    if w[i][1] < B.least[i] or w[i][1] > B.most[i] then return false end
  end
  return true
end

local function check_rows(names)
  local forms = forms_of(ranked, names)
  local expected, prepared, newest = expected_forms(names, forms)
  local difference = check_forms(ranked, names, forms, expected)
  for i, member in ipairs(scored and not rolling and names or {}) do
    if forms[i] and not is_possible(forms[i]) then difference = difference or member end
  end
  if newest and scored and A.repair then
    for i, member in ipairs(names) do
      if newest[i] then call('HSET', rolling.newest, member, newest[i]) end
    end
  end
  if complete and not difference then
    difference = check_forms(rolling.prepared, names, forms_of(rolling.prepared, names), prepared)
  end
  if B.dense and not difference then
    for i, form in ipairs(forms_of(ranked, names)) do
      if form then
        local score = score_of(ranked, form)
        difference = difference or check_score(scored and text(score) or score)
      end
    end
  end
  return difference
end

-- Returns the form of an entry, completed with the words that only the hash has; nil if these are
-- missing.
local function form_from_entry(entry, form)
  local size = 8 * ranked.width
  if not B.stamped then return sub(entry, 1, size) end
  return form and #form == 8 * ranked.words and sub(entry, 1, size) .. sub(form, size + 1) or nil
end

-- Repairs an entry that does not match its member's form, in a ranking of `all` or of a period.
local function repair_entry(entry, member, form)
  local own = form and #form >= 8 * ranked.width and entry_of(ranked, form, member)
  if own and own ~= entry and call('ZSCORE', ranked.r, own) then
    call('ZREM', ranked.r, entry)
    return true
  end
  local restored = form_from_entry(entry, form)
  if not restored then return false end
  call('HSET', ranked.k, member, restored)
  call('ZADD', ranked.r, '0', entry)
  return true
end

local function matches_form(entry, member, form)
  if not form or entry_of(ranked, form, member) ~= entry or not has_entry(ranked, form, member) then
    return false
  end
  return rolling ~= nil or #form == 8 * ranked.words
end

-- Checks that each entry belongs to a member with that form. If the member has no form, either the
-- form was lost or the entry should not exist.
local function check_entries(entries)
  for _, entry in ipairs(entries) do
    local member = sub(entry, 8 * ranked.width + 1)
    local form = form_of(ranked, member)
    if not matches_form(entry, member, form) then
      if not A.repair or (not form and B.stamped) then return member end
      hidden_entries.forget(ranked)
      if not rolling and not build then
        if not repair_entry(entry, member, form) then return member end
      elseif form or rolling and not rolling.refreshed or build then
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

-- Checks the members of a tally that are not ranked; ranked members are checked by 'rows'. If there
-- are more such members than one call can check, it checks and repairs some of them, and the caller
-- repeats the call with the same cursor.
local function check_cells(names)
  local forms, unranked = forms_of(ranked, names), {}
  for i, name in ipairs(names) do
    if not forms[i] and #unranked <= limit then unranked[#unranked + 1] = name end
  end
  local incomplete = #unranked > limit
  if incomplete then unranked[#unranked] = nil end
  return #unranked > 0 and check_rows(unranked) or nil, incomplete
end

-- Checks the kept entries of some hidden members. `entries` are the kept entries of these members, in the same
-- order; without them the members are hidden, and each ranked one must have a kept entry.
local function check_hidden(members, entries)
  local forms, hidden, key = forms_of(ranked, members), fetch('SMISMEMBER', P .. 'hm', members), P .. 'ho:' .. ranked.name
  for i, member in ipairs(members) do
    local entry = forms[i] and entry_of(ranked, forms[i], member)
    local score = entry and call('ZSCORE', key, entry)
    local is_right = score and tonumber(score) == (scored and forms[i] or 0)
    if entries then
      is_right = is_right and entries[i] == entry and hidden[i] == 1
    else
      is_right = is_right or not entry
    end
    if not is_right then
      if not A.repair then return member end
      hidden_entries.forget(ranked)
      return nil
    end
  end
  return nil
end

local function scan(command, from, many) return scan_share(command, from, A.cursor, many, many) end

local names, next_cursor, difference, incomplete
local checked = 0
if A.check == 'score_counts' then
  names, next_cursor = scan('HSCAN', ranked.n, MEMBERS_MOST)
  difference = check_scores(names)
elseif A.check == 'distinct_scores' then
  names, next_cursor = scan('ZSCAN', ranked.d, MEMBERS_MOST)
  difference = check_scores(names)
elseif string.find(A.check, '^hidden_') and not hidden_entries.catch_up(ranked) then
  next_cursor = '0'
elseif A.check == 'hidden_entries' then
  names, next_cursor = scan('ZSCAN', P .. 'ho:' .. ranked.name, MEMBERS_MOST)
  local members = {}
  for i, entry in ipairs(names) do members[i] = scored and entry or sub(entry, 8 * ranked.width + 1) end
  difference = check_hidden(members, names)
elseif A.check == 'hidden_members' then
  names, next_cursor = scan('SSCAN', P .. 'hm', MEMBERS_MOST)
  difference = check_hidden(names)
elseif A.check == 'cells' and (A.step < rolling.oldest_step or built_to and A.step >= built_to) then
  next_cursor = '0'
elseif A.check == 'cells' then
  names, next_cursor = scan('HSCAN', tally(rolling.name, A.step), MEMBERS_MOST)
  difference, incomplete = check_cells(names)
elseif A.check == 'rows' then
  if scored then
    names, next_cursor = scan('ZSCAN', ranked.r, limit)
  else
    names, next_cursor = scan('HSCAN', ranked.k, limit)
  end
  difference, checked = check_rows(names), #names
else
  names, next_cursor = scan('ZSCAN', ranked.r, MEMBERS_MOST)
  difference, checked = check_entries(names), #names
end
return cmsgpack.pack({'done', incomplete and A.cursor or next_cursor, checked, difference or ''})
