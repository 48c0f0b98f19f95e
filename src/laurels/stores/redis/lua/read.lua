-- read(board, now, due, rolls, requests, feeds) -> {'done', seq, parts, refresh_states}, text…
-- Answers read requests (see index/coding.py) from one state; for `refresh_states` see refresh_state.lua.
--
-- ARGV[1]  msgpack: board, now, due, rolls, requests. A request is {window, instance, rolling, anchors, spans
--   {anchor, low, high, first, last, fit}, members, data}, or {false, form, after, limit} to list the
--   next scopes of a form; none of these may be stale, that is last advanced before `since`.
-- An anchor is {'start'}, {'end'}, {'member', member}, {'count', form} (the number of entries below
--   the form), or {'within', form, next form, member, right} (the number of entries below the form,
--   plus those from the form to the next one whose member sorts before `member`).
-- All parts of an answer are in one flat list, which is cheaper than a table for each part. A request adds:
--   the size of the ranking; the position of each anchor, -1 if there is none; for each span its first
--   position, the rank there and the entries; if members are requested, a table of positions, one of
--   ranks (-1: not ranked) and one of forms; if data is requested, a table for each span and one for
--   the members.
-- Entries are a list of alternating members and scores. In the prefixed layout the list has only their
--   number, and each entry, like the form of each requested member, is one of the texts after the
--   answer.
local refused = refusal()
if refused then return {cmsgpack.pack(refused)} end

local parts, texts = {}, {''}  -- the first text is set to the packed answer at the end

local function say(part) parts[#parts + 1] = part end

local rankings = {}

-- Returns a ranking with its size. For a rolling window that is at another step the ranking is an empty
-- one. A refreshed window has only one readable ranking, whatever the step.
local function ranking_of(window, instance, rolling)
  local name = window .. ':' .. text(instance)
  local ranked = rankings[name]
  if not ranked then
    if rolling and is_refreshed(window) then
      instance = shown_instance(window)
    elseif rolling then
      local run = tonumber(call('HGET', KEYS[1], 'run:' .. window) or nil)
      instance = run == instance and run % 2 or -1
    end
    ranked = ranking(window, instance)
    ranked.total = call('ZCARD', ranked.r)
    rankings[name] = ranked
  end
  return ranked
end

-- Whether one text sorts before another in byte order.
local function precedes(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Returns the position before which all members sort before `member`, by binary search among the
-- entries of one score, from position `low` to `high`. With `right` the member itself is included.
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

local function position_of(ranked, form, member)
  return form and call('ZRANK', ranked.r, entry_of(ranked, form, member)) or -1
end

local function position(ranked, anchor)
  local kind = anchor[1]
  if kind == 'start' then return 0 end
  if kind == 'end' then return ranked.total end
  if kind == 'within' then return within(ranked, anchor) end
  if kind == 'member' then
    local member = anchor[2]
    return position_of(ranked, scored or form_of(ranked, member), member)
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

-- Adds the entries from `low` to `high` to the answer. Returns their members if `named`.
local function slice(ranked, low, high, named)
  say(low)
  if low >= high then
    say(0)
    say(scored and {} or 0)
    return {}
  end
  local first, entries, members
  if scored then
    entries = call('ZRANGE', ranked.r, text(low), text(high - 1), 'WITHSCORES')
    first = tonumber(entries[2])
  else
    entries = call('ZRANGE', ranked.r, text(low), text(high - 1))
    first = entries[1]
    for i = 1, #entries do texts[#texts + 1] = entries[i] end
  end
  say(B.rank == 'ordinal' and low or rank_of(ranked, first, ''))
  say(scored and entries or #entries)
  if named then
    members = {}
    for i = 1, high - low do
      members[i] = scored and entries[2 * i - 1] or sub(entries[i], 8 * ranked.width + 1)
    end
  end
  return members
end

local function locate(ranked, members)
  local positions, ranks, forms = {}, {}, forms_of(ranked, members)
  for i, member in ipairs(members) do
    local form = forms[i]
    positions[i] = position_of(ranked, form, member)
    ranks[i] = B.rank == 'ordinal' and positions[i] or rank_of(ranked, form, member)
    if not scored then
      texts[#texts + 1] = form and sub(form, 1, 8 * ranked.width) or ''
    end
  end
  say(positions)
  say(ranks)
  say(scored and forms or {})
end

local function answer(window, instance, rolling, anchors, spans, members, data)
  local ranked = ranking_of(window, instance, rolling)
  local positions, named = {}, {}
  say(ranked.total)
  for i = 1, #anchors do
    positions[i] = position(ranked, anchors[i])
    say(positions[i])
  end
  for i = 1, #spans do
    local low, high = extent(spans[i], positions, ranked.total)
    named[i] = slice(ranked, low, high, data)
  end
  if #members > 0 then locate(ranked, members) end
  if data then
    for i = 1, #spans do say(data_of(named[i])) end
    say(data_of(members))
  end
end

-- Adds the next scopes of a form to the answer. Returns the stale ones among them: the caller has to
-- advance these first, since they may be empty by now.
local function list(form, after_, limit)
  local from = after_ == '' and '-' or '(' .. after_
  local names = call('ZRANGEBYLEX', P .. 'l:' .. form, from, '+', 'LIMIT', '0', text(limit))
  local behind, before = {}, behind_before(A.since)
  for i, mark in ipairs(fetch('ZMSCORE', P .. 'o', names)) do
    if not mark or tonumber(mark) < before then behind[#behind + 1] = names[i] end
  end
  say(names)
  return behind
end

for _, request in ipairs(A.requests) do
  if request[1] then
    answer(unpack(request, 1, 7))
  else
    local behind = list(request[2], request[3], request[4])
    if #behind > 0 then return {cmsgpack.pack({'scopes_not_ready', behind})} end
  end
end

-- Returns the offset that the answer shows: the number of the last change. A label replica adds, before
-- it, the number of the last entry of each feed that it has counted.
local function state()
  local seq, found = tonumber(call('HGET', KEYS[1], 'seq') or '0'), {}
  for i = 1, A.feeds or 0 do
    local entry = call('HGET', KEYS[1], 'fed:' .. text(i - 1)) or '0'
    found[i] = tonumber(string.match(entry, '%d+$'))
  end
  if not A.feeds then return seq end
  found[A.feeds + 1] = seq
  return found
end

local seq = state()
texts[1] = cmsgpack.pack({'done', seq, parts, refresh_states()})
return texts
