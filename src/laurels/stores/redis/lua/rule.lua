-- The write rule: the new row of a member in one window after an event, as in engine/writing/rule.pyx.
--
-- Two parts of the rule are repeated in other files, since sharing them would cost a copy or a call
-- for every event. The first is the comparison of tuples: this file compares rows and candidates;
-- cells.lua compares cells, which have another layout in memory. The second is adding to a total
-- and keeping the greatest stamp: this file adds one event; merge.lua adds a sum of events. The
-- vectors in tests/vectors test all of them.

-- Returns the rows of a ranking's members, or the cells of a tally, in memory: words by column and slot.
local function rows_of(forms, count)
  local rows = {w = {}, present = {}, dirty = {}, changed = {}}
  for i = 1, count do rows.w[i] = {} end
  local w, present = rows.w, rows.present
  if scored and count == 1 then
    local first, low = w[1], lows[1]
    for slot = 1, #forms do
      local form = forms[slot]
      if form then first[slot], present[slot] = form + low, true end
    end
  else
    for slot = 1, #forms do
      if forms[slot] then
        decode_form(forms[slot], w, slot, count)
        present[slot] = true
      end
    end
  end
  return rows
end

local function is_in_range(values, least, most)
  for i = 1, columns do
    if values[i] < least[i] or values[i] > most[i] then return false end
  end
  return true
end

-- Returns the tie word of the later of two stamps; `was` is the row's current tie word, nil for a
-- new row.
local function latest_tie(stamp, was)
  return was and tie * was > stamp and was or tie * stamp
end

-- Computes the new row of best columns: the better tuple; if they are equal, the least stamp.
local function compute_best(rows, slot, values, stamp, new_row)
  local w, old = rows.w, rows.present[slot]
  local order = old and 0 or -1
  for i = 1, columns do
    if order == 0 and values[i] ~= w[i][slot] then order = values[i] < w[i][slot] and -1 or 1 end
    new_row[i] = values[i]
  end
  new_row.changed = order < 0
  if tie ~= 0 then
    new_row[width] = tie * stamp
    if order == 0 and stamp < tie * w[width][slot] then new_row.changed = true end
  end
  new_row.needs_write = new_row.changed
end

-- Returns the total after an event that sets it: the old total, minus the baseline (the member's
-- total in the window `all`), plus the value. The order of operations avoids intermediate results
-- beyond 2^53, unless the total itself is beyond.
local function set_total(was, baseline, value)
  if was == baseline then return value end
  if (was >= 0) == (baseline >= 0) then return was - baseline + value end
  if (value >= 0) == (baseline >= 0) then return value - baseline + was end
  return value + was - baseline
end

-- Computes the new row of sums and last values, with the greatest stamp; returns false if a total is out
-- of range.
local function compute_totals(rows, slot, values, stamp, at, least, most, new_row)
  local w, old = rows.w, rows.present[slot]
  local newest, changed = at, not old
  if old then newest = B.stamped and w[words][slot] or tie ~= 0 and tie * w[width][slot] or 0 end
  for i = 1, columns do
    local value, was = values[i], old and w[i][slot]
    if sums[i] and values.baseline then
      value = set_total(was or 0, values.baseline[i], value)
    elseif sums[i] and old then
      value = value + was
    end
    if value < least[i] or value > most[i] then return false end
    if old and not sums[i] and at < newest then value = was end
    changed = changed or value ~= was
    new_row[i] = value
  end
  if tie ~= 0 then
    local was = old and w[width][slot]
    new_row[width] = latest_tie(stamp, was)
    changed = changed or new_row[width] ~= was
  end
  new_row.changed, new_row.needs_write = changed, changed
  if B.stamped then
    new_row[words] = math.max(at, newest)
    new_row.needs_write = changed or new_row[words] ~= w[words][slot]
  end
  return true
end

-- A total with decay, mantissa * 2^exponent, is two words; engine/writing/decay.pxd computes the same
-- bits. The weight of an event is weight * 2^(exponent - 52), with a mantissa of 53 bits.
local DECAYED_BIAS, MANTISSA, NEGLIGIBLE = 1099511627776, 9007199254740992, 64

local function add_decayed(first, mantissa, value, exponent, weight)
  local m, moved = math.frexp(value * weight)
  if m == 0 then return first, mantissa end
  local e = exponent - 52 + moved - 53
  m = m * MANTISSA
  if mantissa ~= 0 then
    local n, f = mantissa, math.abs(first) - DECAYED_BIAS
    if f < e then n, f, m, e = m, e, n, f end
    if f - e > NEGLIGIBLE then
      m, e = n, f
    else
      m, moved = math.frexp(n + math.ldexp(m, e - f))
      m, e = m * MANTISSA, f + moved - 53
    end
  end
  if m == 0 then return 0, 0 end
  return m > 0 and e + DECAYED_BIAS or -(e + DECAYED_BIAS), m
end

-- Computes the new row in a window with decay.
local function compute_decayed(rows, slot, value, exponent, weight, stamp, new_row)
  local w, old = rows.w, rows.present[slot]
  local first, mantissa = old and w[1][slot] or 0, old and w[2][slot] or 0
  new_row[1], new_row[2] = add_decayed(first, mantissa, value, exponent, weight)
  new_row.changed = not old or new_row[1] ~= first or new_row[2] ~= mantissa
  if tie ~= 0 then
    local was = old and w[3][slot]
    new_row[3] = latest_tie(stamp, was)
    new_row.changed = new_row.changed or new_row[3] ~= was
  end
  new_row.needs_write = new_row.changed
end

-- Computes the new row after an event; returns false if a value or total is out of range.
local function compute_row(rows, slot, values, stamp, at, least, most, new_row)
  if not B.best then return compute_totals(rows, slot, values, stamp, at, least, most, new_row) end
  if not is_in_range(values, least, most) then return false end
  compute_best(rows, slot, values, stamp, new_row)
  return true
end

local function mark_dirty(rows, slot)
  if not rows.changed[slot] then
    rows.changed[slot] = true
    rows.dirty[#rows.dirty + 1] = slot
  end
end

local function set_row(rows, slot, new_row)
  for i = 1, #rows.w do rows.w[i][slot] = new_row[i] end
  rows.present[slot] = true
  mark_dirty(rows, slot)
end

-- Candidates of best columns

-- Compares values with a candidate: negative if the values are better, 0 if equal, positive if
-- worse.
local function compare_scores(values, candidate)
  for i = 1, columns do
    if values[i] ~= candidate[i + 1] then return values[i] - candidate[i + 1] end
  end
  return 0
end

local function is_better(values, stamp, candidate)
  local order = compare_scores(values, candidate)
  if order ~= 0 then return order < 0 end
  return tie ~= 0 and stamp < tie * candidate[width + 1]
end

-- Returns the candidates of a member after an event in a step, or nil if they do not change. Sets
-- `marks`, by step: '' where the tally gets a candidate of the member, false where it loses one.
local function add_candidate(candidates, step, values, stamp, marks)
  local own, next_one = nil, nil
  for _, candidate in ipairs(candidates) do
    if candidate[1] == step then own = candidate end
    if candidate[1] > step and not next_one then next_one = candidate end
  end
  if own and not is_better(values, stamp, own) then return nil end
  if not own and next_one and compare_scores(values, next_one) > 0 then return nil end
  local new, kept, added = {step}, {}, false
  for i = 1, columns do new[i + 1] = values[i] end
  if tie ~= 0 then new[width + 1] = tie * stamp end
  for _, candidate in ipairs(candidates) do
    if candidate[1] >= step and not added then kept[#kept + 1], added = new, true end
    if candidate[1] < step and compare_scores(values, candidate) < 0 then
      marks[candidate[1]] = false
    elseif candidate[1] ~= step then
      kept[#kept + 1] = candidate
    end
  end
  if not added then kept[#kept + 1] = new end
  marks[step] = ''
  return kept
end
