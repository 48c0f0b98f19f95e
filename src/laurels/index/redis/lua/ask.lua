-- ask(board, now, due, rolls, asks) -> {'done', seq, {total, positions, slices, located, data}…}
-- Answers asks (see index/asking.py) from one state.
--
-- ARGV[1]  msgpack: board, now, due, rolls, asks: {window, instance, rolling (the step, or false),
--   anchors {kind, words or member…}, spans {anchor, low, high, first, last, fit}, members, data}
-- a slice is {start, members with their rows in front…, ranks}; -1 stands for nobody.
local no = refusal()
if no then return no end

local function bound(ranked, anchor)
  local prefix = write(anchor[2], #anchor[2])
  local member, right = anchor[3], anchor[4]
  if member then return call('ZLEXCOUNT', ranked.r, '-', (right and '[' or '(') .. prefix .. member) end
  return call('ZLEXCOUNT', ranked.r, '-', '(' .. (right and after(prefix) or prefix))
end

local function position(ranked, anchor, total)
  local kind = anchor[1]
  if kind == 'start' then return 0 end
  if kind == 'end' then return total end
  if kind == 'bound' then return bound(ranked, anchor) end
  local row = call('HGET', ranked.k, anchor[2])
  return row and call('ZRANK', ranked.r, sub(row, 1, 8 * width) .. anchor[2]) or -1
end

local function extent(span, positions, total)
  local at = positions[span[1] + 1]
  if at < 0 then return 0, 0 end
  local low, high = at + span[2], at + span[3]
  if span[6] then
    low = math.max(0, math.min(low, total - (high - low)))
    high = low + span[3] - span[2]
  end
  if span[4] then
    local first = positions[span[4] + 1]
    high = high + math.max(0, first - low)
    low = math.max(low, first)
  end
  if span[5] then
    local last = positions[span[5] + 1]
    low, high = math.min(low, last), math.min(high, last)
  end
  low = math.min(math.max(0, low), total)
  return low, math.max(low, math.min(high, total))
end

local function data_of(members)
  if #members == 0 then return {} end
  local found = {}
  for i, member in ipairs(members) do found[i] = call('HGET', P .. 'x', member) end
  return found
end

local function slice(ranked, low, high, ask)
  if low >= high then return {low, {}, {}, {}} end
  local entries = call('ZRANGE', ranked.r, text(low), text(high - 1))
  local ranks, score, rank = {}, nil, nil
  for i, entry in ipairs(entries) do
    local own = sub(entry, 1, 8 * columns)
    if own ~= score then score, rank = own, rank_of(ranked, entry, '') end
    if B.rank == 'ordinal' then ranks[i] = low + i - 1 else ranks[i] = rank end
  end
  local data = {}
  if ask.data then
    local members = {}
    for i, entry in ipairs(entries) do members[i] = sub(entry, 8 * width + 1) end
    data = data_of(members)
  end
  return {low, entries, ranks, data}
end

local function located(ranked, members)
  local found = {}
  for i, member in ipairs(members) do
    local row = call('HGET', ranked.k, member)
    if row then
      local at = call('ZRANK', ranked.r, sub(row, 1, 8 * width) .. member)
      found[i] = {at, rank_of(ranked, row, member), sub(row, 1, 8 * width)}
    else
      found[i] = {-1, -1, ''}
    end
  end
  return found
end

local answers = {}
for i, ask in ipairs(A.asks) do
  local instance = ask.instance
  local ranked = ranking(ask.window, ask.rolling and ask.rolling % 2 or instance)
  if ask.rolling then
    local run = tonumber(call('HGET', P .. 'm', 'run:' .. ask.window))
    if run ~= ask.rolling then ranked = ranking(ask.window, -1) end
  end
  local total, positions, slices = call('ZCARD', ranked.r), {}, {}
  for j, anchor in ipairs(ask.anchors) do positions[j] = position(ranked, anchor, total) end
  for j, span in ipairs(ask.spans) do
    local low, high = extent(span, positions, total)
    slices[j] = slice(ranked, low, high, ask)
  end
  answers[i] = {total, positions, slices, located(ranked, ask.members),
                ask.data and data_of(ask.members) or {}}
end
return {'done', tonumber(call('HGET', P .. 'm', 'seq') or '0'), answers}
