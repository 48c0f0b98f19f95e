-- Rolling windows: the live ranking, the ranking prepared for the next step, tallies, candidates.
--
-- What a window with an archive shows at a boundary is kept as the ranking P r:<w>:<step> of the step that
-- ended there. It is the live ranking, renamed when the window rotates (`keep_boundary`).
--
-- An entry in the prepared ranking is the live entry minus the member's cell in the tally that
-- leaves next. There is no entry if the member's newest step is the step of that tally or an older
-- one. An entry is always computed from the live one, so preparing a member twice does no harm.

local function tally(name, step) return P .. 't:' .. name .. ':' .. text(step) end

-- The server searches a small hash (by default up to 512 fields) linearly. Therefore a tally that
-- gets more than COMPACT fields is converted to a hash table, by adding a value of more than 64
-- bytes for a moment. That has no effect on a server with a higher hash-max-listpack-value.
local COMPACT = 64

-- Writes cells to a tally.
local function write_tally(to, cells)
  local before = call('HLEN', to)
  send('HSET', to, cells)
  if before <= COMPACT and before + #cells / 2 > COMPACT and call('HLEN', to) > COMPACT then
    call('HSET', to, '', string.rep(' ', 65))
    call('HDEL', to, '')
  end
end

-- Returns a rolling window at the step `running_step`, by default the stored one; nil if none is stored.
-- In a refreshed window `live` is the ranking that is shown, and `prepared` the one being built.
local function rolling_window(w, running_step)
  running_step = running_step or tonumber(call('HGET', KEYS[1], 'run:' .. w.name) or nil)
  if not running_step then return nil end
  local refreshed = is_refreshed(w.name)
  local instance = refreshed and shown_instance(w.name) or running_step % 2
  local rolling = {
    name = w.name, steps = w.steps,
    running_step = running_step, oldest_step = running_step - w.steps + 1,
    live = ranking(w.name, instance), prepared = ranking(w.name, 1 - instance),
  }
  rolling.live.step, rolling.prepared.step = running_step, running_step
  if refreshed then
    rolling.refreshed = true
    return rolling
  end
  rolling.oldest_tally = tally(w.name, rolling.oldest_step)
  if scored then rolling.newest = P .. 'e:' .. w.name end
  if B.best then rolling.candidates = P .. 'c:' .. w.name end
  return rolling
end

-- Returns the newest steps of members, given their live forms.
local function newest_steps(rolling, names, forms)
  local steps = {}
  if scored then
    steps = fetch('HMGET', rolling.newest, names)
    for i = 1, #names do steps[i] = tonumber(steps[i] or nil) end
  else
    for i = 1, #names do steps[i] = forms[i] and decode_word(forms[i], words + 1) end
  end
  return steps
end

-- Returns the unpacked candidates of best columns from the step `oldest` on: {step, words…}, in the
-- order of steps.
local function decode_candidates(packed, oldest)
  local candidates, size = {}, 8 * (width + 1)
  for at = 0, packed and #packed - 1 or -1, size do
    local one = sub(packed, at + 1, at + size)
    local candidate = {}
    for i = 1, width + 1 do candidate[i] = decode_word(one, i) end
    if candidate[1] >= oldest then candidates[#candidates + 1] = candidate end
  end
  return candidates
end

local function encode_candidates(candidates)
  local parts = {}
  for _, candidate in ipairs(candidates) do
    for i = 1, width + 1 do parts[#parts + 1] = encode_word(candidate[i]) end
  end
  return table.concat(parts)
end

-- Returns the form of the best of the packed candidates after a step, false if there are none.
-- Candidates are in the order of their steps, and each is better than all later ones.
local function best_after(packed, step, newest)
  local each = width + 1
  local low, high = 0, #packed / (8 * each)
  while low < high do
    local middle = floor((low + high) / 2)
    if decode_word(packed, middle * each + 1) > step then high = middle else low = middle + 1 end
  end
  local at = low * each + 1
  if 8 * at > #packed then return false end
  if not scored then return sub(packed, 8 * at + 1, 8 * (at + width)) .. encode_word(newest) end
  local w = {}
  for i = 1, width do w[i] = {decode_word(packed, at + i)} end
  return encode_form(w, 1, width)
end

-- Returns the forms that members have once the oldest tally has left. `forms` are their live forms,
-- `cells` their cells in that tally, `candidates` their packed candidates.
local function prepared_forms(rolling, forms, newest, cells, candidates)
  local prepared = {}
  for i = 1, #forms do
    local form = forms[i]
    if not form or newest[i] <= rolling.oldest_step then
      prepared[i] = false
    elseif B.best then
      prepared[i] = form
      if cells[i] then prepared[i] = best_after(candidates[i] or '', rolling.oldest_step, newest[i]) end
    else
      prepared[i] = cells[i] and subtract_cell(form, scored and tonumber(cells[i]) or cells[i]) or form
    end
  end
  return prepared
end

-- Writes the prepared entries of members, given their live forms.
local function prepare(rolling, names, forms, newest, cells, candidates)
  local news = prepared_forms(rolling, forms, newest, cells, candidates)
  local blind = scored and not B.dense
  replace_forms(rolling.prepared, names, blind and {} or forms_of(rolling.prepared, names), news)
end

-- Returns the packed candidates of members.
local function candidates_of(rolling, names)
  return B.best and fetch('HMGET', rolling.candidates, names) or {}
end
