-- ask(board, now, due, rolls, asks) -> {'done', seq, {total, positions, slices, located, data}…}, …
-- Answers asks (see index/asking.py) from one state.
--
-- ARGV[1]  msgpack: board, now, due, rolls, asks: {window, instance, run (or false), anchors, spans
--   {anchor, low, high, first, last, fit}, members, data}
-- an anchor is {'start'}, {'end'}, {'member', member}, {'count', form} (entries below it) or
--   {'within', form, next form, member, right} (those below the form, and of the ones between it
--   and the next those below the member)
-- a slice is {start, number of entries, rank of the first, entries, data}; an entry is a member and
--   its form, in the prefixed layout one text, behind the answer; -1 stands for nobody.
local no = refusal()
if no then return {cmsgpack.pack(no)} end

local rankings = {}
for i, ask in ipairs(A.asks) do
  local instance = ask.instance
  if ask.rolling then
    local run = tonumber(call('HGET', KEYS[1], 'run:' .. ask.window) or nil)
    instance = run == instance and run % 2 or -1
  end
  rankings[i] = ranking(ask.window, instance)
end

local texts = {''}  -- the answer goes first

-- Whether a text comes before another one, byte by byte.
local function precedes(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Entries of one score, from position `low` to `high`, that come before a member.
local function before_member(ranked, low, high, member, right)
  while low < high do
    local middle = floor((low + high) / 2)
    local found = call('ZRANGE', ranked.r, text(middle), text(middle))[1]
    if precedes(found, member) or (right and found == member) then low = middle + 1
    else high = middle end
  end
  return low
end

local function count_below(ranked, form)
  if scored then return call('ZCOUNT', ranked.r, '-inf', '(' .. text(form)) end
  return call('ZLEXCOUNT', ranked.r, '-', '(' .. form)
end

local function prefix(list)
  local parts = {}
  for i, word in ipairs(list) do parts[i] = put(word) end
  return table.concat(parts)
end

local function within(ranked, anchor)
  local member, right = anchor[4], anchor[5]
  if scored then
    local low, high = count_below(ranked, anchor[2]), count_below(ranked, anchor[3])
    return before_member(ranked, low, high, member, right)
  end
  local place_of = (right and '[' or '(') .. prefix(anchor[2]) .. member
  return call('ZLEXCOUNT', ranked.r, '-', place_of)
end

local function position(ranked, anchor, total)
  local kind = anchor[1]
  if kind == 'start' then return 0 end
  if kind == 'end' then return total end
  if kind == 'within' then return within(ranked, anchor) end
  if kind == 'member' then
    local form = form_of(ranked, anchor[2])
    return form and call('ZRANK', ranked.r, entry_of(ranked, form, anchor[2])) or -1
  end
  if scored then return count_below(ranked, anchor[2]) end
  local first = prefix(anchor[2])
  return count_below(ranked, anchor[3] and after(first) or first)
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

local function data_of(members) return fetch('HMGET', P .. 'x', members) end

local function slice(ranked, low, high, ask)
  if low >= high then return {low, 0, 0, {}, {}} end
  local entries, members, first
  if scored then
    entries = call('ZRANGE', ranked.r, text(low), text(high - 1), 'WITHSCORES')
    first = tonumber(entries[2])
    if ask.data then
      members = {}
      for i = 1, #entries, 2 do members[(i + 1) / 2] = entries[i] end
    end
  else
    local found = call('ZRANGE', ranked.r, text(low), text(high - 1))
    first, entries, members = found[1], {}, {}
    for i, entry in ipairs(found) do
      texts[#texts + 1] = entry
      if ask.data then members[i] = sub(entry, 8 * ranked.width + 1) end
    end
  end
  local rank = B.rank == 'ordinal' and low or rank_of(ranked, first, '')
  return {low, high - low, rank, entries, ask.data and data_of(members) or {}}
end

local function located(ranked, members)
  local positions, ranks, forms = {}, {}, forms_of(ranked, members)
  for i, member in ipairs(members) do
    local form = forms[i]
    positions[i] = form and call('ZRANK', ranked.r, entry_of(ranked, form, member)) or -1
    ranks[i] = B.rank == 'ordinal' and positions[i] or rank_of(ranked, form, member)
    if not scored then
      texts[#texts + 1] = form and sub(form, 1, 8 * ranked.width) or ''
    end
  end
  return {positions, ranks, scored and forms or {}}
end

local found = {}
for i, ask in ipairs(A.asks) do
  local ranked = rankings[i]
  local total, positions, slices = call('ZCARD', ranked.r), {}, {}
  for j, anchor in ipairs(ask.anchors) do positions[j] = position(ranked, anchor, total) end
  for j, span in ipairs(ask.spans) do
    local low, high = extent(span, positions, total)
    slices[j] = slice(ranked, low, high, ask)
  end
  found[i] = {total, positions, slices, located(ranked, ask.members),
              ask.data and data_of(ask.members) or {}}
end
local seq = tonumber(call('HGET', KEYS[1], 'seq') or '0')
texts[1] = cmsgpack.pack({'done', seq, found})
return texts
