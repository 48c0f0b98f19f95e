-- keep(op, board, …) -> {'done', …}
-- What is done to a board beside counting: opening, passes, removal, what members carry.
--
-- ARGV[1]  msgpack: op, board, now, windows (those that roll: {name, steps}), and
--   open; close; turn (roll, limit); advance (roll, limit); remove (member);
--   data (member, text or false); position (source, text); keys (empty: also those that hold
--   nobody); drop (names); forget (before)
local op = A.op

local function unlink_ranking(ranked)
  call('UNLINK', ranked.r, P .. 'k:' .. ranked.name, P .. 'd:' .. ranked.name, P .. 'n:' .. ranked.name)
end

local function unlink_rolling(rolled)
  unlink_ranking(rolled.live)
  unlink_ranking(rolled.prepared)
  call('UNLINK', P .. 'e:' .. rolled.name, P .. 'c:' .. rolled.name)
  for step = rolled.leaving - 1, rolled.run do
    call('UNLINK', tally(rolled.name, step))
  end
  call('HDEL', KEYS[1], 'run:' .. rolled.name, 'phase:' .. rolled.name, 'place:' .. rolled.name)
end

-- The rankings of periods that there are.
local function periods()
  local found = {}
  for i, name in ipairs(call('SMEMBERS', P .. 'i')) do
    local window, instance = string.match(name, '^(.*):([^:]*)$')
    found[i] = ranking(window, tonumber(instance))
  end
  return found
end

local function windows()
  local found = {}
  for _, w in ipairs(A.windows) do found[#found + 1] = rolling(w) end
  return found
end

local function open()
  local known = tonumber(call('HGET', KEYS[1], 'ver') or '0')
  if known < tonumber(B.version) then call('HSET', KEYS[1], 'ver', B.version) end
  return {'done'}
end

local function close()
  local there, rolled = periods(), windows()
  for _, ranked in ipairs(there) do unlink_ranking(ranked) end
  for _, each in ipairs(rolled) do unlink_rolling(each) end
  call('UNLINK', KEYS[1], P .. 'i', P .. 'q', P .. 'x', P .. 'p', P .. 's')
  return {'done'}
end

-- Brings a window to the step that runs, by about `limit` members of the passes that are missing.
local function turn()
  local rolled = rolling(A.roll)
  local running = A.roll.running
  if not rolled or rolled.run >= running then return {'done', 1} end
  local now = tonumber(call('HGET', KEYS[1], 'now') or '-1e300')
  if A.now > now then call('HSET', KEYS[1], 'now', text(A.now)) end
  if running - rolled.run >= rolled.steps then
    unlink_rolling(rolled)
    return {'done', 1}
  end
  local limit, complete = A.limit, true
  while rolled.run < running do
    complete, limit = advance(rolled, limit)
    if not complete then return {'done', 0} end
    call('UNLINK', tally(rolled.name, rolled.leaving - 1))
    call('HSET', KEYS[1], 'run:' .. rolled.name, text(rolled.run + 1),
         'phase:' .. rolled.name, '0', 'place:' .. rolled.name, '0')
    rolled = rolling(A.roll)
  end
  return {'done', 1}
end

-- Answers about how many members are left.
local function pass()
  local rolled = rolling(A.roll)
  if not rolled then return {'done', 0} end
  local before = tally(rolled.name, rolled.leaving - 1)
  if advance(rolled, A.limit) then return {'done', 0} end
  return {'done', math.max(1, call('HLEN', before) + call('HLEN', rolled.left))}
end

local function remove()
  local there, rolled, found = periods(), windows(), 0
  local function discard(ranked)
    local form = form_of(ranked, A.member)
    place(ranked, {A.member}, {form}, {false})
    return form and 1 or 0
  end
  for _, ranked in ipairs(there) do found = found + discard(ranked) end
  for _, each in ipairs(rolled) do
    found = found + discard(each.live)
    discard(each.prepared)
    for step = each.leaving - 1, each.run do
      call('HDEL', tally(each.name, step), A.member)
    end
    call('HDEL', P .. 'e:' .. each.name, A.member)
    call('HDEL', P .. 'c:' .. each.name, A.member)
  end
  call('HDEL', P .. 'x', A.member)
  tell('removed', A.member)
  return {'done', found}
end

local function data()
  if A.text then call('HSET', P .. 'x', A.member, A.text) else call('HDEL', P .. 'x', A.member) end
  tell('data', A.member)
  return {'done'}
end

local function position()
  call('HSET', P .. 'p', A.source, A.text)
  return {'done'}
end

local function keys()
  local found = {}
  for _, ranked in ipairs(periods()) do
    if A.empty or call('EXISTS', ranked.r) == 1 then found[#found + 1] = ranked.name end
  end
  for _, each in ipairs(windows()) do
    if A.empty or call('EXISTS', each.live.r) == 1 then
      found[#found + 1] = each.name .. ':' .. text(each.run)
    end
  end
  return {'done', found}
end

local function drop()
  local there = {}
  for i, name in ipairs(A.names) do
    local window, instance = string.match(name, '^(.*):([^:]*)$')
    there[i] = ranking(window, tonumber(instance))
  end
  for _, ranked in ipairs(there) do
    unlink_ranking(ranked)
    call('SREM', P .. 'i', ranked.name)
  end
  return {'done'}
end

-- Forgets ids that are too old to speak against anything; how many.
local function forget()
  local old = call('ZRANGEBYSCORE', P .. 'q', '-inf', text(A.before), 'LIMIT', '0', '1000')
  send('ZREM', P .. 'q', old)
  return {'done', #old}
end

local ops = {open = open, close = close, turn = turn, advance = pass, remove = remove, data = data,
             position = position, keys = keys, drop = drop, forget = forget}
if op ~= 'open' and op ~= 'close' and call('HGET', KEYS[1], 'ver') ~= B.version then
  return cmsgpack.pack({'stale'})
end
return cmsgpack.pack(ops[op]())
