-- Windows whose rankings are refreshed: which ranking is shown, and how each window stands.
--
-- An event writes the tally of its step, and no ranking. Of the two rankings of such a window one is
-- shown, as the last refresh made it, and the other one is being built (refresh.lua). Which is which
-- says the number of refreshes there have been, gen:<w>: its parity is the instance of the one that
-- is shown, in all scopes at once. So a refresh is one number that goes up, however many scopes there
-- are. In P m there is of a window, besides:
--   shown:<w>   when it was refreshed last, nothing before the first time
--   moved:<w>   the number of the change by which what it shows changed last: that refresh or, since
--               then, a member removed or given other data
--   noted:<w>   when it was refreshed last or, with the other shards of its board, passed over since
--               there was nobody
--   waits:<w>   somebody is shown, or something was counted since
--   build:<w>   of a build: its number and the step it is for; beside it next:<w>, some:<w>, empty:<w>
--   built:<w>   in each scope: the number of a build that has come to it, and how far that is there

local function is_refreshed(name) return B.refreshed and B.refreshed[window_of(name)] end

local sides = {}  -- by window

-- The instance of the ranking that a window shows.
local function shown_side(name)
  local window = window_of(name)
  sides[window] = sides[window] or tonumber(call('HGET', KEYS[1], 'gen:' .. window) or '0') % 2
  return sides[window]
end

-- How the windows stand: by name what moved:, shown: or false, waits: and noted: or false say, and the
-- number of changes by which they stand so; false where there are no such windows.
local function stands()
  if not B.refreshed then return false end
  local found, seq = {}, tonumber(call('HGET', KEYS[1], 'seq') or '0')
  for name in pairs(B.refreshed) do
    local said = call('HMGET', KEYS[1], 'moved:' .. name, 'shown:' .. name, 'waits:' .. name,
                      'noted:' .. name)
    found[name] = {tonumber(said[1] or '0'), said[2] and tonumber(said[2]), said[3] ~= false,
                   said[4] and tonumber(said[4]), seq}
  end
  return found
end

-- Notes that a change is one of what these windows show.
local function move(seq)
  for name in pairs(B.refreshed or {}) do
    if call('HEXISTS', KEYS[1], 'shown:' .. name) == 1 then
      call('HSET', KEYS[1], 'moved:' .. name, text(seq))
    end
  end
end

-- Builds

-- The build of a window that is under way, nil without one.
local function build_of(window)
  local said = call('HGET', KEYS[1], 'build:' .. window)
  if not said then return nil end
  local number, step = string.match(said, '^(%d+):(%-?%d+)$')
  return {number = number, step = tonumber(step)}
end

-- How far a build is in a scope: 'clear', or the number of the step whose tally it goes through, those
-- before it are done; and its place there. Nil where it has not come to the scope.
local function progress_of(build, name)
  local said = call('HGET', KEYS[1], 'built:' .. name)
  local number, at, place = string.match(said or '', '^(%d+):([^:]*):(.*)$')
  if number ~= build.number then return nil end
  return tonumber(at) or at, place
end

local function progress_told(build, at, place)
  return build.number .. ':' .. (at == 'clear' and at or text(at)) .. ':' .. place
end
