-- read(board, now, due, rolling, requests, hidden, feeds) -> {'done', seq, parts, refresh_states, has_heads}, text…
-- Answers read requests (see index/coding.py) from one state; for `refresh_states` see refresh_state.lua.
--
-- ARGV[1]  msgpack: board, now, due, rolling, requests; hidden, lists of hidden members of this shard, of which
--   one may be true, the members of the version `listed` (nil: no request leaves any out); if their entries
--   are not kept for all rankings that are read, the reply is 'hidden_not_ready' and the names of the other
--   rankings (see hidden_entries.lua); small: see hidden.lua; since, with a request for scopes: scopes that were last advanced before
--   this time are stale; feeds, in a label replica: how many shards it follows; closings: the value
--   of P m closings that the caller knows (see closing.lua); if the stored value is another one,
--   the call is refused as `closings_moved`. A request is one of
--   {window, instance, rolling, anchors, spans {anchor, low, high, first, last, fit}, members, data,
--     whole, zeros, hidden, unlimited}: entries of a ranking. With `whole` the answer has all words of the members'
--     rows. `zeros` are two anchors; with them the answer leaves out the entries between these anchors.
--     `hidden` is the index in `hidden` of the members that the answer leaves out
--   {false, form, after, limit}: the next scopes of a form. If any of them is stale, the answer is
--     only a list of these
--   {true, window, step, members}: the cells of members in the tally of a step. The answer has the form
--     of the answer for requested members, where each member with a cell has the position 0
--   {cursor, window, instance, limit, data}: up to `limit` members of a ranking with a head after a cursor,
--     which is a number, with all words of their rows; see `head.walk`
-- An anchor is {'start'}, {'end'}, {'member', member}, {'count', form} (the number of entries below
--   the form), or {'within', form, next form, member, right} (the number of entries below the form,
--   plus the number of entries from the form to the next form whose member sorts before `member`).
-- All parts of an answer are in one flat list, which is cheaper than a table for each part. A request
--   for entries adds: the size of the ranking; the position of each anchor, -1 if it is at a member
--   that is not ranked; for each span its first position, the rank there and the entries; if
--   members are requested, a table of positions, one of ranks (-1: not ranked) and one of forms; if
--   data is requested, a table for each span and one for the members.
-- If a ranking has the layout with a head (see `has_heads`, by request for entries), its part of the
--   answer also has: after the size, the number of exact positions and the number of changes of the grid
--   (false without one); after the positions of anchors, a table of their greatest possible positions;
--   after the forms of members, a table of their greatest possible ranks. Positions and ranks are then
--   the least possible ones. Spans end at the last position that the board lists; with `unlimited` they
--   end at the last exact position.
-- Entries are a list of alternating members and scores. In the prefixed layout the list has only their
--   number, and each entry, like the form of each requested member, is one of the texts after the
--   answer.
local reply = refusal_reply()
if not reply and A.closings and (call('HGET', KEYS[1], 'closings') or '0') ~= A.closings then
  reply = {'closings_moved'}
end
if reply then return {cmsgpack.pack(reply)} end

local parts, has_heads, texts = {}, {}, {''}  -- the first text is set to the packed answer at the end

local function append(part) parts[#parts + 1] = part end

local rankings = {}

-- Returns a ranking with its size. If the rolling window is not at the requested step, returns what was kept
-- at the end of that step, or an empty ranking. For a refreshed window, returns the ranking that is shown, whatever the step.
local function ranking_of(window, instance, rolling, bounds, hidden)
  local name = window .. ':' .. text(instance) .. (bounds and ':ranked' or '')
  if hidden then name = name .. ':' .. text(hidden) end
  local ranked = rankings[name]
  if not ranked then
    if rolling and is_refreshed(window) then
      instance = shown_instance(window)
    elseif rolling then
      local run = tonumber(call('HGET', KEYS[1], 'run:' .. window) or nil)
      instance = run == instance and run % 2 or instance  -- of an earlier step there may be what was kept at its end
    end
    ranked = ranking(window, instance)
    if hidden then zeros.leave_out(ranked, A.hidden[hidden]) end
    if bounds then zeros.find(ranked, bounds) end
    if has_head(ranked) then
      ranked.total, ranked.certain = head.total(ranked), head.certain(ranked)
    else
      ranked.total = zeros.before(ranked, call('ZCARD', ranked.r))
    end
    rankings[name] = ranked
  end
  return ranked
end

-- Returns the first position from `low` to `high` at which the entry's member does not sort before
-- `member`; with `right`, at which it sorts after `member`. It is a binary search: all these
-- entries have the same score.
local function before_member(ranked, low, high, member, right)
  while low < high do
    local middle = floor((low + high) / 2)
    local entry = call('ZRANGE', ranked.r, text(middle), text(middle))[1]
    if precedes(entry, member) or (right and entry == member) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

local function count_below(ranked, form)
  if scored then return call('ZCOUNT', ranked.r, '-inf', '(' .. text(form)) end
  return call('ZLEXCOUNT', ranked.r, '-', '(' .. form)
end

local function count_within(ranked, anchor)
  local member, right = anchor[4], anchor[5]
  if scored then
    local low, high = count_below(ranked, anchor[2]), count_below(ranked, anchor[3])
    return before_member(ranked, low, high, member, right)
  end
  local bound = (right and '[' or '(') .. encode_words(anchor[2]) .. member
  return call('ZLEXCOUNT', ranked.r, '-', bound)
end

local function position_of(ranked, form, member)
  local position = form and not zeros.hides(ranked, member) and
                   call('ZRANK', ranked.r, entry_of(ranked, form, member))
  return position and zeros.position(ranked, position) or -1
end

local function stored_position(ranked, anchor)
  if anchor[1] == 'within' then return count_within(ranked, anchor) end
  if scored then return count_below(ranked, anchor[2]) end
  local first = encode_words(anchor[2])
  return count_below(ranked, anchor[3] and after_prefix(first) or first)
end

local function exact_position(ranked, anchor)
  local kind = anchor[1]
  if kind == 'start' then return 0 end
  if kind == 'end' then return ranked.total end
  if kind == 'member' then
    local member = anchor[2]
    return position_of(ranked, scored or form_of(ranked, member), member)
  end
  return zeros.before(ranked, stored_position(ranked, anchor))
end

-- Returns a form with the score at which an anchor is, and whether the anchor is before all members
-- with this score.
local function form_at(anchor)
  local is_count = anchor[1] == 'count'
  if scored then return anchor[2], is_count and anchor[2] % head.score_unit == 0 end
  local right = is_count and anchor[3]
  local score = {unpack(anchor[2], 1, columns)}
  for i = #score + 1, columns do score[i] = right and BIAS or -BIAS end
  return encode_words(score), is_count and not right
end

-- Returns the position of an anchor. In a ranking with a head, returns its least and its greatest possible position.
local function position(ranked, anchor)
  if not has_head(ranked) then return exact_position(ranked, anchor) end
  local kind = anchor[1]
  if kind == 'start' then return 0, 0 end
  if kind == 'end' then return ranked.total, ranked.total end
  if kind == 'member' then
    local form = form_of(ranked, anchor[2])
    local own = form and head.locate(ranked, form, anchor[2]).position or -1
    return own, own < ranked.certain and own or ranked.total - 1
  end
  local form, leads = form_at(anchor)
  return head.bounds(ranked, form, exact_position(ranked, anchor), leads)
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

-- Returns the stored entries from `first` to `last`.
local function stored_entries(ranked, first, last)
  if scored then return call('ZRANGE', ranked.r, text(first), text(last), 'WITHSCORES') end
  return call('ZRANGE', ranked.r, text(first), text(last))
end

local function member_of(ranked, entry)
  return scored and entry or sub(entry, 8 * ranked.width + 1)
end

-- Returns the stored entries from `first` to `last` that are not hidden.
local function entries_not_hidden(ranked, first, last)
  local entries = stored_entries(ranked, first, last)
  if not ranked.hidden or ranked.hidden.count == 0 then return entries end
  local kept, members, step = {}, {}, scored and 2 or 1
  for i = 1, #entries, step do members[#members + 1] = member_of(ranked, entries[i]) end
  zeros.prepare(ranked, members)
  for i = 1, #entries, step do
    if not zeros.hides(ranked, member_of(ranked, entries[i])) then
      kept[#kept + 1] = entries[i]
      if scored then kept[#kept + 1] = entries[i + 1] end
    end
  end
  return kept
end

-- Returns the entries from `low` to `high`. This range must not be empty.
local function list_entries(ranked, low, high)
  local first, last, gap = zeros.stored(ranked, low), zeros.stored(ranked, high - 1), ranked.zeros
  if not gap or gap.stored_first == gap.stored_past or low >= gap.first or high <= gap.first then
    return entries_not_hidden(ranked, first, last)
  end
  local entries = entries_not_hidden(ranked, first, gap.stored_first - 1)
  for _, part in ipairs(entries_not_hidden(ranked, gap.stored_past, last)) do
    entries[#entries + 1] = part
  end
  return entries
end

-- Adds the entries from `low` to `high` to the answer. Returns their members if `with_members` is
-- true.
local function slice(ranked, low, high, with_members)
  append(low)
  if low >= high then
    append(0)
    append(scored and {} or 0)
    return {}
  end
  local entries, first, members = list_entries(ranked, low, high)
  if scored then
    first = tonumber(entries[2])
  else
    first = entries[1]
    for i = 1, #entries do texts[#texts + 1] = entries[i] end
  end
  append(B.rank == 'ordinal' and low or rank_of(ranked, first, ''))
  append(scored and entries or #entries)
  if with_members then
    members = {}
    for i = 1, high - low do
      members[i] = member_of(ranked, entries[scored and 2 * i - 1 or i])
    end
  end
  return members
end

local function locate(ranked, members, whole)
  local positions, ranks, forms, highs = {}, {}, forms_of(ranked, members), {}
  zeros.prepare(ranked, members)
  for i, member in ipairs(members) do
    local form = forms[i]
    if has_head(ranked) then
      local located = form and head.locate(ranked, form, member) or {position = -1, rank = -1, high = -1}
      positions[i], ranks[i], highs[i] = located.position, located.rank, located.high
    else
      positions[i] = position_of(ranked, form, member)
      ranks[i] = B.rank == 'ordinal' and positions[i] or rank_of(ranked, form, member)
    end
    if not scored then
      texts[#texts + 1] = form and sub(form, 1, 8 * (whole and ranked.words or ranked.width)) or ''
    end
  end
  append(positions)
  append(ranks)
  append(scored and forms or {})
  if has_head(ranked) then append(highs) end
end

local function answer(window, instance, rolling, anchors, spans, members, data, whole, bounds, hidden, unlimited)
  local ranked = ranking_of(window, instance, rolling, bounds or nil, hidden or nil)
  local positions, highs, slice_members = {}, {}, {}
  append(ranked.total)
  local listed = ranked.total
  has_heads[#has_heads + 1] = has_head(ranked)
  if has_head(ranked) then
    local s = head.state(ranked)
    listed = unlimited and ranked.certain or math.min(ranked.certain, head.sizes.k)
    append(ranked.certain)
    append(s.grid and s.changes or false)
  end
  for i = 1, #anchors do
    positions[i], highs[i] = position(ranked, anchors[i])
    append(positions[i])
  end
  if has_head(ranked) then append(highs) end
  for i = 1, #spans do
    local low, high = extent(spans[i], positions, listed)
    slice_members[i] = slice(ranked, low, high, data)
  end
  if #members > 0 then locate(ranked, members, whole) end
  if data then
    for i = 1, #spans do append(data_of(slice_members[i])) end
    append(data_of(members))
  end
end

-- Adds the next scopes of a form to the answer. Returns the stale ones among them. If there are stale scopes,
-- the script answers only with these: they may have become empty, so the client has to advance them and ask
-- again.
local function list_scopes(form, after, limit)
  local from = after == '' and '-' or '(' .. after
  local names = call('ZRANGEBYLEX', P .. 'l:' .. form, from, '+', 'LIMIT', '0', text(limit))
  local stale_scopes, stale_ms = {}, stale_before(A.since)
  for i, advanced_ms in ipairs(fetch('ZMSCORE', P .. 'o', names)) do
    if not advanced_ms or tonumber(advanced_ms) < stale_ms then
      stale_scopes[#stale_scopes + 1] = names[i]
    end
  end
  append(names)
  return stale_scopes
end

-- Adds the cells of members in the tally of a step to the answer.
local function look_up(window, step, members)
  local positions, forms = {}, fetch('HMGET', P .. 't:' .. window .. ':' .. text(step), members)
  for i, form in ipairs(forms) do
    positions[i] = form and 0 or -1
    if scored then
      forms[i] = form and tonumber(form)
    else
      texts[#texts + 1] = form and sub(form, 1, 8 * width) or ''
    end
  end
  append(positions)
  append(positions)
  append(scored and forms or {})
end

-- Adds a part of the members of a ranking with a head to the answer: the size of the ranking, the members, the words
-- of their rows, the next cursor, and the members' data if it is requested. Returns true. While members are moved into
-- buckets, adds nothing and returns false.
local function walk(cursor, window, instance, limit, data)
  local ranked = ranking(window, instance)
  local members, forms, past = head.walk(ranked, cursor, limit)
  if not members then return false end
  append(head.total(ranked))
  append(members)
  for i = 1, scored and 0 or #forms do texts[#texts + 1] = sub(forms[i], 1, 8 * ranked.words) end
  append(scored and forms or {})
  append(past)
  if data then append(data_of(members)) end
  return true
end

for _, request in ipairs(A.requests) do
  if type(request[1]) == 'number' then
    if not walk(unpack(request)) then return {cmsgpack.pack({'passes_not_ready'})} end
  elseif request[1] == true then
    look_up(request[2], request[3], request[4])
  elseif request[1] then
    answer(unpack(request, 1, 11))
  else
    local stale_scopes = list_scopes(request[2], request[3], request[4])
    if #stale_scopes > 0 then return {cmsgpack.pack({'scopes_not_ready', stale_scopes})} end
  end
end

if zeros.not_ready then return {cmsgpack.pack({'hidden_not_ready', zeros.not_ready})} end

-- Returns the offset that the answer shows: the number of the last change. In a label replica, returns
-- a list: the number of the last counted entry of each feed, then the number of the last change.
local function offset()
  local seq, last_entries = tonumber(call('HGET', KEYS[1], 'seq') or '0'), {}
  for i = 1, A.feeds or 0 do
    local entry = call('HGET', KEYS[1], 'fed:' .. text(i - 1)) or '0'
    last_entries[i] = tonumber(string.match(entry, '%d+$'))
  end
  if not A.feeds then return seq end
  last_entries[A.feeds + 1] = seq
  return last_entries
end

local seq = offset()
texts[1] = cmsgpack.pack({'done', seq, parts, refresh_states(), head.sizes and has_heads or false})
return texts
