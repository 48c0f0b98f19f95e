-- Reads a hash or sorted set in shares, so that no call blocks the server for long.
--
-- The server stores a small collection compactly, and a larger one as a table. The first cursor is
-- '0:', and the cursor after the last share is '0'. In between, the cursor of a table is the
-- server's own one. The server returns a compact collection whole, whatever COUNT is. It is divided
-- into shares here, in the order of the names' digests (Lua compares texts by locale, and comparing
-- bytes in Lua is slow), and its cursor is '0:' and the last digest. If the server turns the
-- collection into a table between two calls, the scan begins again. So a name that stays in the
-- collection during the whole scan is returned at least once, and possibly several times.

local function digest(name) return tonumber(sub(redis.sha1hex(name), 1, 12), 16) end

-- Returns the names in a SCAN reply without repetitions. Every `stride`-th item of the reply is a
-- name.
local function scanned_names(items, stride)
  local names, seen = {}, {}
  for i = 1, #items, stride do
    local name = items[i]
    if not seen[name] then names[#names + 1], seen[name] = name, true end
  end
  return names
end

local function weight_of(names, weigh)
  if not weigh then return #names end
  local weight = 0
  for i = 1, #names do weight = weight + weigh(names[i]) end
  return weight
end

-- Returns the names after a digest, up to a total weight of `limit`, but at least one name if there
-- is any. Also returns the next cursor, and the weight of the returned names.
local function names_after(names, last, limit, weigh)
  local digests, of = {}, {}
  for _, name in ipairs(names) do
    local own = digest(name)
    if own > last and of[own] then
      table.insert(of[own], name)
    elseif own > last then
      digests[#digests + 1], of[own] = own, {name}
    end
  end
  table.sort(digests)
  local part, weight = {}, 0
  for i, own in ipairs(digests) do
    local more = weight_of(of[own], weigh)
    if i > 1 and weight + more > limit then return part, '0:' .. text(digests[i - 1]), weight end
    for _, name in ipairs(of[own]) do part[#part + 1] = name end
    weight = weight + more
  end
  return part, '0', weight
end

-- Returns three results: names from a cursor on, the next cursor, and the total weight of these
-- names, which is about the limit. `weigh` returns the weight of a name; without it each name
-- weighs 1. If the collection is stored as a table, about `many` names are returned, whatever their
-- weight.
local function scan_share(command, from, cursor, limit, many, weigh)
  local server_cursor, last = string.match(cursor, '^(%d+):?(%d*)$')
  local reply = call(command, from, server_cursor, 'COUNT', text(many))
  local names = scanned_names(reply[2], command == 'SSCAN' and 1 or 2)
  if server_cursor ~= '0' or reply[1] ~= '0' then return names, reply[1], weight_of(names, weigh) end
  if last == '' and #names <= limit then
    local weight = weight_of(names, weigh)
    if weight <= limit then return names, '0', weight end
  end
  return names_after(names, tonumber(last) or -1, limit, weigh)
end
