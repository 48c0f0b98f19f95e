-- Positions and ranks on boards with hidden members. A ranking has its hidden members like all others,
-- and readers leave them out: the position of an entry among the listed ones is its position in the
-- sorted set, minus the number of hidden members before it. See core/hidden.py.
--
-- To count these, a reader needs the entries of the hidden members in the order of the ranking, and reads
-- some of their positions, by a binary search. There are three ways to find the entries:
--   1. The shard keeps them in order, see hidden_entries.lua. This is the way for the current hidden
--      members (A.listed is their version). If they are not kept yet for this ranking, the call is refused:
--      `zeros.not_ready` has the names of such rankings.
--   2. In a ranking of at most A.small members, all of its members are read.
--   3. The caller sends the members, and the script reads their forms and sorts them. This is the way for
--      closed periods, for which other members are hidden, and while a hiding has ended and is not removed yet.
--
-- In a ranking with a head, the hidden members before the floor have exact positions in the sorted set. The
-- others are counted exactly by the segments of the grid. So the bounds of a position stay certain when the
-- hidden members are subtracted.
do
  -- Returns how many of `count` numbers that never decrease are less than a value, where `is_less(i)` is
  -- whether the i-th one is.
  local function count_while(count, is_less)
    local low, high = 0, count
    while low < high do
      local middle = floor((low + high) / 2)
      if is_less(middle + 1) then low = middle + 1 else high = middle end
    end
    return low
  end

  local function count_less(numbers, value)
    return count_while(#numbers, function(i) return numbers[i] < value end)
  end

  -- Returns the i-th of the entries that a shard keeps in order, with its score. Zeros that the ranking does
  -- not list are skipped.
  local function kept_entry(own, i)
    local place = i - 1
    if place >= own.zeros_from then place = place + own.zeros_count end
    local found = call('ZRANGE', own.key, text(place), text(place), 'WITHSCORES')
    return found[1], tonumber(found[2])
  end

  -- Returns the position in the sorted set of the i-th hidden member in the order of the ranking.
  -- Positions are looked up when they are first needed, since a binary search needs few of them.
  local function position_at(ranked, i)
    local own = ranked.hidden
    local position = own.positions[i]
    if not position then
      local entry = own.key and kept_entry(own, i) or own.order[i]
      position = call('ZRANK', ranked.r, entry) or math.huge
      own.positions[i] = position
    end
    return position
  end

  -- Returns how many of the hidden members in the sorted set precede a position.
  local function count_before(ranked, position)
    local count = ranked.hidden.count
    if count == 0 or position_at(ranked, count) < position then return count end
    return count_while(count - 1, function(i) return position_at(ranked, i) < position end)
  end

  -- Returns the entries of members that the sorted set has, in its order; `forms` are their forms, false for those that
  -- are not ranked. Sorts by the first word, as a number, which is much cheaper than by text or by position; only
  -- entries with the same first word are sorted by position. No table is made for an entry that is alone with
  -- its first word, since that took most of the time.
  local function sorted(ranked, members, forms)
    local firsts, groups, order, found = {}, {}, {}, 0
    for i = 1, #members do
      local form = forms[i]
      if form then
        local first, entry = scored and form or decode_word(form, 1), entry_of(ranked, form, members[i])
        local group = groups[first]
        if not group then
          firsts[#firsts + 1], groups[first] = first, entry
        elseif type(group) == 'string' then
          groups[first] = {group, entry}
        else
          group[#group + 1] = entry
        end
      end
    end
    table.sort(firsts)
    local in_buckets = has_head(ranked)
    for i = 1, #firsts do
      local group = groups[firsts[i]]
      if type(group) == 'string' and not in_buckets then
        found = found + 1
        order[found] = group
      else
        local places, by = {}, {}
        for _, entry in ipairs(type(group) == 'string' and {group} or group) do
          local place = call('ZRANK', ranked.r, entry)
          if place then places[#places + 1], by[place] = place, entry end
        end
        table.sort(places)
        for _, place in ipairs(places) do
          found = found + 1
          order[found] = by[place]
        end
      end
    end
    return order
  end

  -- Returns the dense ranks that only hidden members have, in ascending order. `forms` are the forms of
  -- the hidden members.
  local function lost_ranks(ranked, forms)
    local by, names, fields, lost = {}, {}, {}, {}
    for _, form in ipairs(forms) do
      local score = score_of(ranked, form)
      if not by[score] then names[#names + 1] = score end
      by[score] = (by[score] or 0) + 1
    end
    for i, score in ipairs(names) do fields[i] = scored and text(score) or score end
    for i, count in ipairs(fetch('HMGET', ranked.n, fields)) do
      if tonumber(count) == by[names[i]] then lost[#lost + 1] = call('ZRANK', ranked.d, fields[i]) end
    end
    table.sort(lost)
    return lost
  end

  -- Finds the entries of members that the caller has sent.
  local function find_sent(ranked, own, members)
    local forms = forms_of(ranked, members)
    for i = 1, #members do
      own.members[members[i]] = true
      if forms[i] then own.forms[#own.forms + 1] = forms[i] end
    end
    own.order = sorted(ranked, members, forms)
  end

  -- Adds entries, {entry, score, …} in the order of the ranking, to `own`.
  local function add_in_order(ranked, own, entries)
    for i = 1, #entries, 2 do
      own.order[#own.order + 1] = entries[i]
      own.forms[#own.forms + 1] = scored and tonumber(entries[i + 1]) or entries[i]
    end
  end

  local function member_of(ranked, entry) return scored and entry or sub(entry, 8 * ranked.width + 1) end

  -- Stores in `own` which of some members are hidden.
  local function look_up(own, members)
    for i, is_hidden in ipairs(fetch('SMISMEMBER', P .. 'hm', members)) do
      own.members[members[i]] = is_hidden == 1
    end
  end

  -- Finds the hidden members in a small ranking by reading all of its members.
  local function find_among_all(ranked, own)
    local entries, members, hidden = call('ZRANGE', ranked.r, '0', '-1', 'WITHSCORES'), {}, {}
    for i = 1, #entries, 2 do members[#members + 1] = member_of(ranked, entries[i]) end
    look_up(own, members)
    for i, member in ipairs(members) do
      if own.members[member] then
        own.positions[#own.positions + 1] = i - 1
        hidden[#hidden + 1], hidden[#hidden + 2] = entries[2 * i - 1], entries[2 * i]
      end
    end
    add_in_order(ranked, own, hidden)
  end

  -- Sets which of the kept entries of a ranking with a head are zeros that it does not list, how many of
  -- the others there are, and how many of them precede the floor.
  local function divide_by_floor(ranked, own)
    local s, all = head.state(ranked), own.count
    if s.hides then
      local zero, past = head.key_of_zeros(), nil
      if scored then
        own.zeros_from = call('ZCOUNT', own.key, '-inf', '(' .. text(zero.form))
        past = call('ZCOUNT', own.key, '-inf', '(' .. text(head.past_zeros))
      else
        local prefix = sub(zero.entry, 1, 8 * columns)
        own.zeros_from = call('ZLEXCOUNT', own.key, '-', '(' .. prefix)
        past = call('ZLEXCOUNT', own.key, '-', '(' .. after_prefix(prefix))
      end
      own.zeros_count = past - own.zeros_from
    end
    own.counted = all - own.zeros_count
    own.count = s.floor and head.count_before({r = own.key}, s.floor) or all
    if own.count > own.zeros_from then
      own.count = math.max(own.zeros_from, own.count - own.zeros_count)
    end
  end

  -- Finds the entries of the current hidden members, as the shard keeps them. Returns false if it does not
  -- keep them.
  local function find_kept(ranked, own)
    if not hidden_entries.has_version(A.listed) then return false end
    own.is_current = true
    if not has_head(ranked) and call('ZCARD', ranked.r) <= A.small then
      find_among_all(ranked, own)
      return true
    end
    local key = hidden_entries.find(ranked, A.listed)
    if not key then
      if zeros.is_late then find_sent(ranked, own, call('SMEMBERS', P .. 'hm')) end
      return zeros.is_late
    end
    local s = has_head(ranked) and head.state(ranked)
    if s and (s.moving or s.leaving or s.junk or s.refill) then
      -- not all entries before the floor, or not only these, are in the sorted set
      local members = call('ZRANGE', key, '0', '-1')
      for i, entry in ipairs(members) do members[i] = member_of(ranked, entry) end
      find_sent(ranked, own, members)
      return true
    end
    own.key, own.count, own.zeros_from, own.zeros_count = key, call('ZCARD', key), math.huge, 0
    if s then divide_by_floor(ranked, own) end
    if B.dense then
      local entries = call('ZRANGE', key, '0', '-1', 'WITHSCORES')
      add_in_order(ranked, own, entries)
    end
    return true
  end

  -- Finds the hidden members that a ranking has: `members`, or the current ones if it is true. From then
  -- on `rank_of`, `head.locate`, `head.total` and the functions in zeros.lua treat the ranking as if it did
  -- not have them. Call it before `zeros.find`.
  function zeros.leave_out(ranked, members)
    local own = {members = {}, forms = {}, order = {}, positions = {}, lost = {}}
    if members ~= true then
      find_sent(ranked, own, members)
    elseif not find_kept(ranked, own) then
      zeros.not_ready = zeros.not_ready or {}
      table.insert(zeros.not_ready, ranked.name)
    end
    own.count = own.count or #own.order
    if B.dense then own.lost = lost_ranks(ranked, own.forms) end
    ranked.hidden = own
    if ranked.state then ranked.state.certain = nil end
  end

  -- Looks up at once which of some members are hidden in a ranking.
  function zeros.prepare(ranked, members)
    if ranked.hidden and ranked.hidden.is_current then look_up(ranked.hidden, members) end
  end

  -- Returns how many of the entries before a position in the sorted set are not hidden.
  function zeros.not_hidden(ranked, position)
    return ranked.hidden and position - count_before(ranked, position) or position
  end

  -- Returns how many of the dense ranks before a rank belong to an entry that is not hidden.
  function zeros.not_lost(ranked, rank)
    local own = ranked.hidden
    return own and rank - count_less(own.lost, rank) or rank
  end

  -- Converts a position among the entries that are not hidden to the position of the same entry in
  -- the sorted set.
  function zeros.with_hidden(ranked, position)
    local count = ranked.hidden.count
    if count == 0 or position_at(ranked, 1) > position then return position end
    return position + count_while(count, function(i) return position_at(ranked, i) - i < position end)
  end

  -- Returns the forms of the hidden members that the segments of a ranking with a head count, unless the
  -- shard keeps their entries.
  local function hidden_forms(ranked)
    local own, s = ranked.hidden, ranked.state
    if not own.listed then
      own.listed = {}
      for _, form in ipairs(own.forms) do
        if not (s.hides and head.is_zero(form)) then own.listed[#own.listed + 1] = form end
      end
    end
    return own.listed
  end

  -- Returns how many hidden members the segments of a ranking with a head count.
  function zeros.count_hidden(ranked)
    return ranked.hidden.counted or #hidden_forms(ranked)
  end

  -- Returns two numbers of hidden members: in the segments before a segment, and in this segment.
  function zeros.hidden_around(ranked, segment, segment_of)
    local own = ranked.hidden
    if not own.key and not own.segments then
      own.segments = {}
      for i, form in ipairs(hidden_forms(ranked)) do own.segments[i] = segment_of(form) end
      table.sort(own.segments)
    end
    local function count_until(value)
      if own.segments then return count_less(own.segments, value) end
      return count_while(own.counted, function(i)
        local entry, score = kept_entry(own, i)
        return segment_of(scored and score or entry) < value
      end)
    end
    local before = count_until(segment)
    return before, count_until(segment + 1) - before
  end
end
