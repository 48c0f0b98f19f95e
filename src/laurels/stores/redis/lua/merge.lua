-- Merging: the additions to one column are first summed for each member, if no prefix of them leaves a
-- range, so that a member with many events costs as much as one with a single event. The caller sends
-- sums where it can tell that these suffice; otherwise they are computed here.

-- Whether all events go to the same targets, and only add.
local function only_adds()
  if columns > 1 or not sums[1] or B.stamped or A.absolute or B.decays or forms then return false end
  for w = 1, #windows do
    if type(A.routes[w]) == 'table' then return false end
  end
  for _, rolling in ipairs(rolling_windows) do
    if rolling.at then return false end
  end
  return true
end

-- Returns the sum of each member's events, and the lowest and highest of its prefix sums; nil where the
-- events have to be counted one by one.
local function add_up(results)
  local given, each = A.values[1], {sum = {}, low = {}, high = {}, stamp = {}, slots = {}, prefix = {}}
  local sum, low, high, stamp, slots = each.sum, each.low, each.high, each.stamp, each.slots
  local stamps = A.stamps
  local one_stamp = type(stamps) ~= 'table' and stamps
  for event = 1, events do
    local slot = who and who[event] or event
    local code = verdict(results, event)
    local so_far, value = sum[slot], given[event]
    each.prefix[event] = so_far
    if code == 0 then
      if value == 0 then return nil end  -- whether it changes anything depends on what is there
      code = APPLIED
      local own = one_stamp or stamps[event]
      if so_far then
        so_far = so_far + value
        if so_far >= BIAS or so_far <= -BIAS then return nil end  -- no number is exact there
        if so_far < low[slot] then low[slot] = so_far end
        if so_far > high[slot] then high[slot] = so_far end
        if own > stamp[slot] then stamp[slot] = own end
      else
        so_far, low[slot], high[slot], stamp[slot] = value, value, value, own
        slots[#slots + 1] = slot
      end
      sum[slot] = so_far
    end
    settle(results, event, code)
  end
  return each
end

-- Returns the same from the sums that the caller sent.
local function added_up(results)
  local each = {sum = A.sums, low = A.least or A.sums, high = A.most or A.sums, stamp = A.stamps, slots = {}}
  local one_stamp = type(A.stamps) ~= 'table' and A.stamps
  if one_stamp then each.stamp = {} end
  for slot = 1, #members do
    each.slots[slot] = slot
    if one_stamp then each.stamp[slot] = one_stamp end
  end
  results.counted = A.events
  return each
end

local function fits(rows, each, least, most)
  local first, present, low, high = rows.w[1], rows.present, each.low, each.high
  for i = 1, #each.slots do
    local slot = each.slots[i]
    local base = present[slot] and first[slot] or 0
    if base + low[slot] < least[1] or base + high[slot] > most[1] then return false end
  end
  return true
end

local function add(rows, each)
  local first, present, dirty, changed = rows.w[1], rows.present, rows.dirty, rows.changed
  local sum = each.sum
  local stamped = rows.w[width]
  for i = 1, #each.slots do
    local slot = each.slots[i]
    local old = present[slot]
    first[slot] = (old and first[slot] or 0) + sum[slot]
    if tie ~= 0 then
      local is = tie * each.stamp[slot]
      if not old or tie * (is - stamped[slot]) > 0 then stamped[slot] = is end
    end
    present[slot], changed[slot], dirty[i] = true, true, slot
  end
end

-- Reports the watched scores before and after each event; if the caller sent sums, only each member's
-- score before all of its events. With `stays` the scores do not change: the window is refreshed.
local function trace(results, each, rows, stays)
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
    local slot = who and who[event] or event
    local was, prefix = present[slot] and first[slot], not stays and each.prefix[event]
    if was then was = was + (prefix or 0) else was = prefix or false end
    before[event] = was
    after[event] = not stays and results.codes[event] == APPLIED and (was or 0) + A.values[1][event] or was
  end
end

-- Counts a batch of additions and returns its results; nil where it has to be counted event by event.
local function merged()
  local results = new_results()
  local each = A.sums and added_up(results) or only_adds() and add_up(results)
  if not each then return nil end
  for w = 1, #windows do
    local store = store_of(w, 1)
    local rolling = store and store.rolling
    local bounded = store and not (rolling and rolling.refreshed)
    local rows = store and (rolling and rolling.rows or store.rows)
    if bounded and not fits(rows, each, B.least, B.most) then return nil end
    if store and rolling and not fits(store.rows, each, windows[w].lows, windows[w].highs) then
      return nil
    end
  end
  local watched = watch > 0 and store_of(watch, 1)
  local stays = watched and watched.rolling and watched.rolling.refreshed
  trace(results, each, watched_rows(1), stays)
  for w = 1, #windows do
    local store = store_of(w, 1)
    local rolling = store and store.rolling
    if store then
      add(store.rows, each)
      if rolling and rolling.refreshed then
        rolling.counted = rolling.counted or #each.slots > 0
      elseif rolling then
        for i = 1, #each.slots do
          local slot = each.slots[i]
          if not rolling.rows.present[slot] or store.step > rolling.steps_of[slot] then
            rolling.steps_of[slot], rolling.moved[slot] = store.step, true
          end
        end
        add(rolling.rows, each)
      end
    end
  end
  return results
end
