-- Refreshed windows: which of a window's two rankings is shown, and the state of its refresh.
--
-- An event writes to the tally of its step, and not to the shown ranking. One of the two rankings
-- is shown, unchanged since the last refresh, and the other is being built (refresh.lua). The
-- parity of the number of refreshes so far, gen:<w>, is the instance that is shown in all scopes. So a
-- refresh takes effect by incrementing one number, however many scopes there are. P m also has, for a window:
--   shown:<w>   the time of the last refresh; absent before the first one
--   moved:<w>   the number of the last change that the shown ranking reflects: of the last refresh
--               or, if that was later, of the last removal of a member or change of member data
--   noted:<w>   the time at which a refresh was last done, or skipped since `waits` was not set
--   waits:<w>   set if the list has members, or if an event was counted since the last refresh
--   build:<w>   the number of the current build and its step
--   next:<w>    the place in the list of scopes from which the current build continues
--   some:<w>    set if the current build has made a ranking with members
--   empty:<w>   set if the current build has made a ranking without members
--   built:<w>   in each scope: the number of the last build that began there, and its progress

local function is_refreshed(name) return B.refreshed and B.refreshed[window_of(name)] end

local shown_instances = {}  -- by window

-- Returns the instance of the ranking that a window shows.
local function shown_instance(name)
  local window = window_of(name)
  if not shown_instances[window] then
    shown_instances[window] = tonumber(call('HGET', KEYS[1], 'gen:' .. window) or '0') % 2
  end
  return shown_instances[window]
end

-- Returns the state of each refreshed window, by name: {moved, shown or false, waits, noted or false,
-- seq}, where seq is the number of the last change that the state reflects. Returns false if there are
-- no refreshed windows.
local function refresh_states()
  if not B.refreshed then return false end
  local states, seq = {}, tonumber(call('HGET', KEYS[1], 'seq') or '0')
  for name in pairs(B.refreshed) do
    local stored = call('HMGET', KEYS[1], 'moved:' .. name, 'shown:' .. name, 'waits:' .. name,
                      'noted:' .. name)
    states[name] = {tonumber(stored[1] or '0'), stored[2] and tonumber(stored[2]), stored[3] ~= false,
                   stored[4] and tonumber(stored[4]), seq}
  end
  return states
end

-- Records that a change affects the lists of the refreshed windows.
local function note_list_change(seq)
  for name in pairs(B.refreshed or {}) do
    if call('HEXISTS', KEYS[1], 'shown:' .. name) == 1 then
      call('HSET', KEYS[1], 'moved:' .. name, text(seq))
    end
  end
end

-- Builds

-- Returns the build of a window that is in progress, nil if there is none.
local function current_build(window)
  local stored = call('HGET', KEYS[1], 'build:' .. window)
  if not stored then return nil end
  local number, step = string.match(stored, '^(%d+):(%-?%d+)$')
  return {number = number, step = tonumber(step)}
end

-- Returns the progress of a build in a scope: 'clear' while it removes the old ranking, otherwise
-- the step of the tally that it goes through, and the cursor in this tally. Returns nil if it has
-- not begun the scope.
local function build_progress(build, name)
  local stored = call('HGET', KEYS[1], 'built:' .. name)
  local number, at, cursor = string.match(stored or '', '^(%d+):([^:]*):(.*)$')
  if number ~= build.number then return nil end
  return tonumber(at) or at, cursor
end

local function encode_progress(build, at, cursor)
  return build.number .. ':' .. (at == 'clear' and at or text(at)) .. ':' .. cursor
end
