-- Merging: if a board only adds to one column, each member's additions are first summed, so that a
-- member with many events costs as much as a member with a single event. This requires that no
-- prefix of the additions takes a total out of its range. The caller sends sums if it knows from
-- the board's rules that this holds; otherwise the sums are computed here.

-- Returns whether all events go to the same targets, and only add.
local function can_merge()
  if columns > 1 or not sums[1] or B.stamped or A.absolute or B.decays or forms then return false end
  for w = 1, #windows do
    if type(A.routes[w]) == 'table' then return false end
  end
  for _, rolling in ipairs(rolling_windows) do
    if rolling.build_step then return false end
  end
  return true
end

-- Returns the sum of each member's events, and the lowest and highest of its prefix sums; nil if
-- the events have to be counted one by one.
local function sum_events(results)
  local values = A.values[1]
  local totals = {sum = {}, low = {}, high = {}, stamp = {}, slots = {}, prefix = {}}
  local sum, low, high, stamp, slots = totals.sum, totals.low, totals.high, totals.stamp, totals.slots
  local stamps = A.stamps
  local one_stamp = type(stamps) ~= 'table' and stamps
  for event = 1, events do
    local slot = event_members and event_members[event] or event
    local code = refusal_code(results, event)
    local total, value = sum[slot], values[event]
    totals.prefix[event] = total
    if code == 0 then
      if value == 0 then return nil end  -- a 0 changes something only if the member is not ranked yet
      code = APPLIED
      local own = one_stamp or stamps[event]
      if total then
        total = total + value
        if total >= BIAS or total <= -BIAS then return nil end  -- beyond this bound numbers are not exact
        if total < low[slot] then low[slot] = total end
        if total > high[slot] then high[slot] = total end
        if own > stamp[slot] then stamp[slot] = own end
      else
        total, low[slot], high[slot], stamp[slot] = value, value, value, own
        slots[#slots + 1] = slot
      end
      sum[slot] = total
    end
    record_result(results, event, code)
  end
  return totals
end

-- Returns the totals of members, made from the sums that the caller sent.
local function sent_sums(results)
  local totals = {
    sum = A.sums, low = A.least or A.sums, high = A.most or A.sums, stamp = A.stamps, slots = {},
  }
  local one_stamp = type(A.stamps) ~= 'table' and A.stamps
  if one_stamp then totals.stamp = {} end
  for slot = 1, #members do
    totals.slots[slot] = slot
    if one_stamp then totals.stamp[slot] = one_stamp end
  end
  results.counted = A.events
  return totals
end

local function fits_bounds(rows, totals, least, most)
  local first, present, low, high = rows.w[1], rows.present, totals.low, totals.high
  for i = 1, #totals.slots do
    local slot = totals.slots[i]
    local base = present[slot] and first[slot] or 0
    if base + low[slot] < least[1] or base + high[slot] > most[1] then return false end
  end
  return true
end

local function add_sums(rows, totals)
  local first, present, dirty, changed = rows.w[1], rows.present, rows.dirty, rows.changed
  local sum = totals.sum
  local stamped = rows.w[width]
  for i = 1, #totals.slots do
    local slot = totals.slots[i]
    local old = present[slot]
    first[slot] = (old and first[slot] or 0) + sum[slot]
    if tie ~= 0 then
      local is = tie * totals.stamp[slot]
      if not old or tie * (is - stamped[slot]) > 0 then stamped[slot] = is end
    end
    present[slot], changed[slot], dirty[i] = true, true, slot
  end
end

-- Reports the watched scores before and after each event. If the caller sent sums, reports only
-- each member's score before the batch. With `frozen` the scores do not change, since the window is
-- refreshed at intervals.
local function report_merged(results, totals, rows, frozen)
  if A.sums then
    local before, first, present = results.before[1], rows and rows.w[1], rows and rows.present
    for slot = 1, watch > 0 and #members or 0 do before[slot] = present[slot] and first[slot] or false end
    return
  end
  if not rows then
    for event = 1, watch > 0 and events or 0 do
      results.before[1][event], results.after[1][event] = false, false
    end
    return
  end
  local before, after, first, present = results.before[1], results.after[1], rows.w[1], rows.present
  for event = 1, events do
    local slot = event_members and event_members[event] or event
    local was, prefix = present[slot] and first[slot], not frozen and totals.prefix[event]
    if was then was = was + (prefix or 0) else was = prefix or false end
    before[event] = was
    after[event] = was
    if not frozen and results.codes[event] == APPLIED then
      after[event] = (was or 0) + A.values[1][event]
    end
  end
end

-- Counts a batch of additions and returns its results; nil if it has to be counted event by event.
local function count_merged()
  local results = new_results()
  local totals = A.sums and sent_sums(results) or can_merge() and sum_events(results)
  if not totals then return nil end
  for w = 1, #windows do
    local store = store_of(w, 1)
    local rolling = store and store.rolling
    local bounded = store and not (rolling and rolling.refreshed)
    local rows = store and (rolling and rolling.rows or store.rows)
    if bounded and not fits_bounds(rows, totals, B.least, B.most) then return nil end
    local window = windows[w]
    if rolling and not fits_bounds(store.rows, totals, window.lows, window.highs) then return nil end
  end
  local watched = watch > 0 and store_of(watch, 1)
  local frozen = watched and watched.rolling and watched.rolling.refreshed
  report_merged(results, totals, watched_rows(1), frozen)
  for w = 1, #windows do
    local store = store_of(w, 1)
    local rolling = store and store.rolling
    if store then
      add_sums(store.rows, totals)
      if rolling and rolling.refreshed then
        rolling.counted = rolling.counted or #totals.slots > 0
      elseif rolling then
        for i = 1, #totals.slots do
          local slot = totals.slots[i]
          if not rolling.rows.present[slot] or store.step > rolling.newest_steps[slot] then
            rolling.newest_steps[slot], rolling.step_changed[slot] = store.step, true
          end
        end
        add_sums(rolling.rows, totals)
      end
    end
  end
  return results
end
