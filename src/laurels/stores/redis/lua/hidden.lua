-- Positions and ranks on boards with hidden members. A ranking has its hidden members like all others,
-- and readers leave them out: the position of an entry among the listed ones is its position in the
-- sorted set, minus the number of hidden members before it. See core/hidden.py.
--
-- The caller of a script sends the hidden members (A.hidden), those of this shard. In a ranking with a
-- head, those before the floor have exact positions in the sorted set. The others count in segments of
-- the grid, whose numbers are exact, too: so the bounds of a position stay certain when they are taken
-- off.
do
  -- Returns how many of some ascending numbers are less than `value`.
  local function count_less(numbers, value)
    local low, high = 0, #numbers
    while low < high do
      local middle = floor((low + high) / 2)
      if numbers[middle + 1] < value then low = middle + 1 else high = middle end
    end
    return low
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
    local own = {members = {}, forms = {}, positions = {}, lost = {}}
    for i, form in ipairs(forms_of(ranked, members)) do
      local member = members[i]
      own.members[member] = true
      if form then
        own.forms[#own.forms + 1] = form
        own.positions[#own.positions + 1] = call('ZRANK', ranked.r, entry_of(ranked, form, member)) or nil
      end
    end
    table.sort(own.positions)
    if B.dense then own.lost = lost_ranks(ranked, own.forms) end
    ranked.hidden = own
    if ranked.state then ranked.state.certain = nil end
  end

  -- Returns how many of the entries before a position in the sorted set are not hidden.
  function zeros.not_hidden(ranked, position)
    local own = ranked.hidden
    return own and position - count_less(own.positions, position) or position
  end

  -- Returns how many dense ranks before a rank some entry has that is not hidden.
  function zeros.not_lost(ranked, rank)
    local own = ranked.hidden
    return own and rank - count_less(own.lost, rank) or rank
  end

  -- Returns the position in the sorted set of the entry that has a position among those that are not
  -- hidden.
  function zeros.with_hidden(ranked, position)
    local positions = ranked.hidden.positions
    local low, high = 0, #positions
    while low < high do
      local middle = floor((low + high) / 2)
      if positions[middle + 1] - middle <= position then low = middle + 1 else high = middle end
    end
    return position + low
  end

  -- Returns the hidden members of a ranking with a head that its segments count, as the forms of their
  -- rows.
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
