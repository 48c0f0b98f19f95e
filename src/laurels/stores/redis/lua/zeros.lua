-- Positions and ranks on boards that do not rank members whose score is 0. The sorted set has these
-- members, too, and there they follow one another. For an entry after them, the position in the
-- sorted set is greater than the position among the ranked entries; the difference is the number of
-- these members. See core/zeros.py. If a ranking has hidden members as well (hidden.lua), a position is
-- first converted to one without these, and then to one without zeros.
do
  -- Returns how many entries of a sorted set precede a bound. The bound has a form or, in the
  -- prefixed layout, words, and says whether it is after all entries with these words.
  local function count_before(key, bound)
    if scored then return call('ZCOUNT', key, '-inf', '(' .. text(bound[2])) end
    local first = encode_words(bound[2])
    return call('ZLEXCOUNT', key, '-', '(' .. (bound[3] and after_prefix(first) or first))
  end

  -- Finds the members of a ranking whose score is 0, between two bounds. From then on `rank_of`,
  -- `head.locate` and the functions below treat the ranking as if it did not have them. `stored_first`
  -- and `stored_past` are positions in the sorted set, all other numbers are without hidden members.
  function zeros.find(ranked, bounds)
    local own = {}
    own.stored_first, own.stored_past = count_before(ranked.r, bounds[1]), count_before(ranked.r, bounds[2])
    own.first, own.past = own.stored_first, own.stored_past
    if ranked.hidden then
      own.first, own.past = zeros.not_hidden(ranked, own.first), zeros.not_hidden(ranked, own.past)
    end
    own.first_rank, own.past_rank = own.first, own.past
    if B.dense then
      own.first_rank, own.past_rank = count_before(ranked.d, bounds[1]), count_before(ranked.d, bounds[2])
      if ranked.hidden then
        own.first_rank = zeros.not_lost(ranked, own.first_rank)
        own.past_rank = zeros.not_lost(ranked, own.past_rank)
      end
    end
    ranked.zeros = own
    if ranked.state then ranked.state.certain = nil end
  end

  -- Undoes `zeros.find` and `zeros.leave_out`: from then on the zeros and the hidden members are treated
  -- like all others.
  function zeros.forget(ranked)
    ranked.zeros, ranked.hidden = nil, nil
    if ranked.state then ranked.state.certain = nil end
  end

  -- Returns how many of the entries before a position in the sorted set are listed.
  function zeros.before(ranked, position)
    if ranked.hidden then position = zeros.not_hidden(ranked, position) end
    local own = ranked.zeros
    if not own or position <= own.first then return position end
    return math.max(own.first, position - (own.past - own.first))
  end

  -- Converts a position among the listed entries to the position of the same entry in the sorted
  -- set.
  function zeros.stored(ranked, position)
    local own = ranked.zeros
    if own and position >= own.first then position = position + own.past - own.first end
    return ranked.hidden and zeros.with_hidden(ranked, position) or position
  end

  -- Returns whether a member is hidden in a ranking.
  function zeros.hides(ranked, member)
    local own = ranked.hidden
    if not own then return false end
    if own.members[member] == nil and own.is_current then
      own.members[member] = call('SISMEMBER', P .. 'hm', member) == 1
    end
    return own.members[member] or false
  end

  -- Converts a position or a rank among the entries that are not hidden to one among the listed
  -- entries; -1 if the entry is not listed.
  local function without(number, first, past)
    if number < first then return number end
    return number < past and -1 or number - (past - first)
  end

  -- Converts the position of a member in the sorted set. The member must not be hidden.
  function zeros.position(ranked, position)
    if ranked.hidden then position = zeros.not_hidden(ranked, position) end
    local own = ranked.zeros
    return own and without(position, own.first, own.past) or position
  end

  -- Converts the rank of a member in the sorted set. The member must not be hidden.
  function zeros.rank(ranked, rank)
    if ranked.hidden then
      rank = B.dense and zeros.not_lost(ranked, rank) or zeros.not_hidden(ranked, rank)
    end
    local own = ranked.zeros
    return own and without(rank, own.first_rank, own.past_rank) or rank
  end
end
