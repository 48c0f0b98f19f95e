-- Rolling windows: the live ranking, the one prepared for the next step, tallies, candidates.
--
-- prepared := live less the tally that leaves, or nothing where a member's newest step is that one
-- or an older one. It is assigned, never decremented, so it may be done again anywhere.

local function tally(name, step) return P .. 't:' .. name .. ':' .. text(step) end

-- A window as it stands at a running step; without one at the step it is known by, or nil.
local function rolling(w, run)
  run = run or tonumber(call('HGET', KEYS[1], 'run:' .. w.name) or nil)
  if not run then return nil end
  local rolled = {name = w.name, steps = w.steps, run = run, leaving = run - w.steps + 1,
                  live = ranking(w.name, run % 2), prepared = ranking(w.name, (run + 1) % 2)}
  rolled.left = tally(w.name, rolled.leaving)
  if scored then rolled.newest = P .. 'e:' .. w.name end
  if B.best then rolled.candidates = P .. 'c:' .. w.name end
  return rolled
end

-- The newest steps of members with these live forms.
local function newest_of(rolled, names, forms)
  local found = {}
  if scored then
    found = fetch('HMGET', rolled.newest, names)
    for i = 1, #names do found[i] = tonumber(found[i] or nil) end
  else
    for i = 1, #names do found[i] = forms[i] and get(forms[i], words + 1) end
  end
  return found
end

-- Candidates of best columns: {step, words…} by step, those that still count.
local function candidates_from(packed, oldest)
  local found, size = {}, 8 * (width + 1)
  for at = 0, packed and #packed - 1 or -1, size do
    local one = sub(packed, at + 1, at + size)
    local candidate = {}
    for i = 1, width + 1 do candidate[i] = get(one, i) end
    if candidate[1] >= oldest then found[#found + 1] = candidate end
  end
  return found
end

local function packed_candidates(found)
  local parts = {}
  for _, candidate in ipairs(found) do
    for i = 1, width + 1 do parts[#parts + 1] = put(candidate[i]) end
  end
  return table.concat(parts)
end

-- The form of the best candidate after a step; false without one.
local function best_after(found, step, newest)
  for _, candidate in ipairs(found) do
    if candidate[1] > step then
      local w = {}
      for i = 1, width do w[i] = {candidate[i + 1]} end
      local form = write(w, 1, width)
      return scored and form or form .. put(newest)
    end
  end
  return false
end

-- What is left of live forms when the oldest tally leaves; `cells` and `lists` (candidates) are
-- those of the members.
local function prepared_forms(rolled, forms, newest, cells, lists)
  local found = {}
  for i = 1, #forms do
    local form = forms[i]
    if not form or newest[i] <= rolled.leaving then
      found[i] = false
    elseif B.best then
      found[i] = form
      if cells[i] then found[i] = best_after(lists[i], rolled.leaving, newest[i]) end
    else
      found[i] = cells[i] and less(form, scored and tonumber(cells[i]) or cells[i]) or form
    end
  end
  return found
end

-- Assigns what is prepared for members with these live forms.
local function prepare(rolled, names, forms, newest, cells, lists)
  local news = prepared_forms(rolled, forms, newest, cells, lists)
  local blind = scored and not B.dense
  place(rolled.prepared, names, blind and {} or forms_of(rolled.prepared, names), news)
end

local function candidates_of(rolled, names)
  local lists = {}
  if B.best then
    local packed = fetch('HMGET', rolled.candidates, names)
    for i = 1, #names do lists[i] = candidates_from(packed[i], rolled.leaving) end
  end
  return lists
end

-- A member that has nothing left in the window needs no newest step and no candidates.
local function forget_gone(rolled, names, forms)
  local gone = {}
  for i = 1, #names do
    if not forms[i] then gone[#gone + 1] = names[i] end
  end
  if scored then send('HDEL', rolled.newest, gone) end
  if B.best then send('HDEL', rolled.candidates, gone) end
end

-- Where in a tally a pass is: a cursor is worth nothing to another process than the one that gave
-- it, such as the same server started again, or a replica that took its place.
local function cursor_of(rolled, process)
  local said = call('HGET', KEYS[1], 'place:' .. rolled.name) or '0'
  local cursor, by = string.match(said, '^(%d+):?(%x*)$')
  return by == process and cursor or '0'
end

-- Does about `limit` members of the pass that prepares the next step; whether it is complete, and
-- what is left of the limit. A step costs a few members even where it is empty.
local function advance(rolled, limit)
  local phase = tonumber(call('HGET', KEYS[1], 'phase:' .. rolled.name) or '0')
  local process = phase < 2 and string.match(call('INFO', 'server'), 'run_id:(%x+)')
  while phase < 2 and limit > 0 do
    local from = tally(rolled.name, rolled.leaving - 1 + phase)
    local found = call('HSCAN', from, cursor_of(rolled, process), 'COUNT', text(math.min(limit, 100)))
    local names, seen = {}, {}
    for i = 1, #found[2], 2 do
      local member = found[2][i]
      if not seen[member] then names[#names + 1], seen[member] = member, true end
    end
    local forms = forms_of(rolled.live, names)
    prepare(rolled, names, forms, newest_of(rolled, names, forms),
            fetch('HMGET', rolled.left, names), candidates_of(rolled, names))
    if phase == 0 then forget_gone(rolled, names, forms) end
    limit = limit - #names - 2
    if found[1] == '0' then
      phase = phase + 1
      call('HSET', KEYS[1], 'phase:' .. rolled.name, text(phase))
    end
    call('HSET', KEYS[1], 'place:' .. rolled.name, found[1] .. ':' .. process)
  end
  return phase >= 2, limit
end
