-- Positions and ranks on boards with hidden members. A ranking has its hidden members like all others,
-- and readers leave them out: the position of an entry among the listed ones is its position in the
-- sorted set, minus the number of hidden members before it. See core/hidden.py.
--
-- The caller of a script sends the hidden members of this shard (A.hidden). In a ranking with a
-- head, the hidden members before the floor have exact positions in the sorted set. The others are
-- counted exactly by the segments of the grid. So the bounds of a position stay certain when the
-- hidden members are subtracted.
do
  -- Returns the position in the sorted set of the i-th hidden member in the order of the ranking.
  -- Positions are looked up when they are first needed, since a binary search needs few of them.
  local function position_at(ranked, i)
    local own = ranked.hidden
    local position = own.positions[i]
    if not position then
      position = call('ZRANK', ranked.r, own.order[i]) or math.huge
      own.positions[i] = position
    end
    return position
  end

  -- Returns how many of the hidden members in the sorted set precede a position.
  local function count_before(ranked, position)
    local low, high = 0, #ranked.hidden.order
    while low < high do
      local middle = floor((low + high) / 2)
      if position_at(ranked, middle + 1) < position then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Returns how many of some ascending numbers are less than `value`.
  local function count_less(numbers, value)
    local low, high = 0, #numbers
    while low < high do
      local middle = floor((low + high) / 2)
      if numbers[middle + 1] < value then low = middle + 1 else high = middle end
    end
    return low
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

  -- Finds the hidden members that a ranking has. From then on `rank_of`, `head.locate`, `head.total` and
  -- the functions in zeros.lua treat the ranking as if it did not have them. Call it before
  -- `zeros.find`.
  function zeros.leave_out(ranked, members)
    local own, forms = {members = {}, forms = {}, positions = {}, lost = {}}, forms_of(ranked, members)
    for i = 1, #members do
      own.members[members[i]] = true
      if forms[i] then own.forms[#own.forms + 1] = forms[i] end
    end
    own.order = sorted(ranked, members, forms)
    if B.dense then own.lost = lost_ranks(ranked, own.forms) end
    ranked.hidden = own
    if ranked.state then ranked.state.certain = nil end
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
    local low, high = 0, #ranked.hidden.order
    while low < high do
      local middle = floor((low + high) / 2)
      if position_at(ranked, middle + 1) - middle <= position then low = middle + 1 else high = middle end
    end
    return position + low
  end

  -- Returns the forms of the hidden members that the segments of a ranking with a head count.
  function zeros.hidden_forms(ranked)
    local own, s = ranked.hidden, ranked.state
    if not own.counted then
      own.counted = {}
      for _, form in ipairs(own.forms) do
        if not (s.hides and head.is_zero(form)) then own.counted[#own.counted + 1] = form end
      end
    end
    return own.counted
  end

  -- Returns two numbers of hidden members: in the segments before a segment, and in this segment.
  function zeros.hidden_around(ranked, segment, segment_of)
    local own = ranked.hidden
    if not own.segments then
      own.segments = {}
      for i, form in ipairs(zeros.hidden_forms(ranked)) do own.segments[i] = segment_of(form) end
      table.sort(own.segments)
    end
    local before = count_less(own.segments, segment)
    return before, count_less(own.segments, segment + 1) - before
  end
end
