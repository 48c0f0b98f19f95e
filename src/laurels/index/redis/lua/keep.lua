-- keep(op, board, …) -> {'done', …}
-- What is done to a board beside counting: opening, passes, removal, what members carry.
--
-- ARGV[1]  msgpack: op, board, now, and
--   open; close (limit); turn (roll, limit); advance (window, limit); remove (member, windows);
--   data (member, text or false); position (source, text); keys; drop (names)
local op, meta = A.op, P .. 'm'

local function unlink(...)
  for _, key in ipairs({...}) do call('UNLINK', key) end
end

local function unlink_ranking(ranked) unlink(ranked.r, ranked.k, ranked.d, ranked.n) end

local function unlink_rolling(rolled)
  unlink_ranking(rolled.live)
  unlink_ranking(rolled.prepared)
  unlink(rolled.candidates)
  for step = rolled.leaving - 1, rolled.run do unlink(tally(rolled.name, step)) end
  call('HDEL', meta, 'run:' .. rolled.name, 'phase:' .. rolled.name, 'place:' .. rolled.name)
  call('SREM', P .. 'i', rolled.name .. ':*')
end

if op == 'open' then
  local known = tonumber(call('HGET', meta, 'ver') or '0')
  if known < B.version then call('HSET', meta, 'ver', text(B.version)) end
  return {'done'}
end

if op == 'close' then
  for _, name in ipairs(call('SMEMBERS', P .. 'i')) do
    if sub(name, -2) ~= ':*' then
      unlink(P .. 'r:' .. name, P .. 'k:' .. name, P .. 'd:' .. name, P .. 'n:' .. name)
    end
  end
  for _, w in ipairs(A.windows) do
    local rolled = rolling(w)
    if rolled then unlink_rolling(rolled) end
  end
  unlink(meta, P .. 'i', P .. 'q', P .. 'x', P .. 'p', P .. 's')
  return {'done'}
end

if call('HGET', meta, 'ver') ~= text(B.version) then return {'stale'} end

if op == 'turn' then
  local rolled = rolling(A.roll)
  if not rolled or rolled.run >= A.roll.running then return {'done', 1} end
  if A.roll.running - rolled.run >= rolled.steps then
    unlink_rolling(rolled)
    return {'done', 1}
  end
  local limit, complete = A.limit, true
  while rolled.run < A.roll.running do
    limit, complete = advance(rolled, limit)
    if not complete then return {'done', 0} end
    unlink(tally(rolled.name, rolled.leaving - 1))
    call('HSET', meta, 'run:' .. rolled.name, text(rolled.run + 1),
         'phase:' .. rolled.name, '0', 'place:' .. rolled.name, '0')
    rolled = rolling(A.roll)
  end
  return {'done', 1}
end

if op == 'advance' then
  local rolled = rolling(A.roll)
  if not rolled then return {'done', 0} end
  local _, complete = advance(rolled, A.limit)
  if complete then return {'done', 0} end
  local left = call('HLEN', tally(rolled.name, rolled.leaving - 1))
  return {'done', math.max(1, left + call('HLEN', tally(rolled.name, rolled.leaving)))}
end

if op == 'remove' then
  local found = 0
  local function discard(ranked)
    local row = call('HGET', ranked.k, A.member)
    if row then place(ranked, A.member, row, nil) end
    return row and 1 or 0
  end
  for _, name in ipairs(call('SMEMBERS', P .. 'i')) do
    local window, instance = string.match(name, '^(.*):([^:]*)$')
    if instance ~= '*' then found = found + discard(ranking(window, tonumber(instance))) end
  end
  for _, w in ipairs(A.windows) do
    local rolled = rolling(w)
    if rolled then
      found = found + discard(rolled.live)
      discard(rolled.prepared)
      for step = rolled.leaving - 1, rolled.run do
        call('HDEL', tally(rolled.name, step), A.member)
      end
      call('HDEL', rolled.candidates, A.member)
    end
  end
  call('HDEL', P .. 'x', A.member)
  local seq = call('HINCRBY', meta, 'seq', '1')
  call('XADD', P .. 's', 'MAXLEN', '~', '10000', '*', 'seq', text(seq), 'removed', A.member)
  return {'done', found}
end

if op == 'data' then
  if A.text then call('HSET', P .. 'x', A.member, A.text) else call('HDEL', P .. 'x', A.member) end
  call('HINCRBY', meta, 'seq', '1')
  return {'done'}
end

if op == 'position' then
  call('HSET', P .. 'p', A.source, A.text)
  return {'done'}
end

if op == 'keys' then
  local found = {}
  for _, name in ipairs(call('SMEMBERS', P .. 'i')) do
    if sub(name, -2) ~= ':*' and call('EXISTS', P .. 'r:' .. name) == 1 then found[#found + 1] = name end
  end
  for _, w in ipairs(A.windows) do
    local rolled = rolling(w)
    if rolled and call('EXISTS', rolled.live.r) == 1 then
      found[#found + 1] = w.name .. ':' .. text(rolled.run)
    end
  end
  return {'done', found}
end

if op == 'drop' then
  for _, name in ipairs(A.names) do
    unlink(P .. 'r:' .. name, P .. 'k:' .. name, P .. 'd:' .. name, P .. 'n:' .. name)
    call('SREM', P .. 'i', name)
  end
  return {'done'}
end
