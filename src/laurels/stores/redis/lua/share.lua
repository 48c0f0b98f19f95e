-- Shares of a hash or sorted set, so that no call holds the server for long.
--
-- A place is '0:' at the beginning, a cursor further on, and '0' at the end. A small collection is
-- given whole, however little is asked for: its names then go in the order of their digests (Lua
-- compares texts by the locale, and byte by byte it is slow), and the place is '0:' and the last
-- digest. One that has become a table meanwhile is gone through from its beginning. So whoever is
-- there all the time comes up, perhaps twice.

local function digest(name) return tonumber(sub(redis.sha1hex(name), 1, 12), 16) end

-- Names without what stands beside them, each once.
local function names_in(found, apart)
  local names, seen = {}, {}
  for i = 1, #found, apart do
    local name = found[i]
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

-- Names behind a digest, as many as weigh no more than the limit, at least one; the place, the weight.
local function part_of(names, last, limit, weigh)
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

-- Names from a place on that weigh about as much as the limit, the next place, and their weight;
-- `weigh` says what a name weighs, nil: 1 each. From a table come about `many`, whatever they weigh.
local function share_of(command, from, place, limit, many, weigh)
  local cursor, last = string.match(place, '^(%d+):?(%d*)$')
  local found = call(command, from, cursor, 'COUNT', text(many))
  local names = names_in(found[2], command == 'SSCAN' and 1 or 2)
  if cursor ~= '0' or found[1] ~= '0' then return names, found[1], weight_of(names, weigh) end
  if last == '' and #names <= limit then
    local weight = weight_of(names, weigh)
    if weight <= limit then return names, '0', weight end
  end
  return part_of(names, tonumber(last) or -1, limit, weigh)
end
