-- Positions and ranks on boards that do not rank members whose score is 0. The sorted set has these
-- members, too, and there they follow one another. For an entry after them, the position in the
-- sorted set is greater than the position among the ranked entries; the difference is the number of
-- these members. See core/zeros.py.
do
  -- Returns how many entries of a sorted set precede a bound. The bound has a form or, in the
  -- prefixed layout, words, and says whether it is after all entries with these words.
  local function count_before(key, bound)
    if scored then return call('ZCOUNT', key, '-inf', '(' .. text(bound[2])) end
    local first = encode_words(bound[2])
    return call('ZLEXCOUNT', key, '-', '(' .. (bound[3] and after_prefix(first) or first))
  end

  -- Finds the members of a ranking whose score is 0, between two bounds. From then on `rank_of`,
  -- `head.locate` and the functions below treat the ranking as if it did not have them.
  function zeros.find(ranked, bounds)
    local first, past = count_before(ranked.r, bounds[1]), count_before(ranked.r, bounds[2])
    local own = {first = first, past = past, first_rank = first, past_rank = past}
    if B.dense then
      own.first_rank, own.past_rank = count_before(ranked.d, bounds[1]), count_before(ranked.d, bounds[2])
    end
    ranked.zeros = own
  end

  -- Undoes `zeros.find`: from then on the zeros are treated like all other members.
  function zeros.forget(ranked)
    ranked.zeros = nil
    if ranked.state then ranked.state.certain = nil end
  end

  -- Returns how many of the entries before a position in the sorted set are ranked.
  function zeros.before(ranked, position)
    local own = ranked.zeros
    if not own or position <= own.first then return position end
    return math.max(own.first, position - (own.past - own.first))
  end

  -- Converts a position among the ranked entries to the position of the same entry in the sorted
  -- set.
  function zeros.stored(ranked, position)
    local own = ranked.zeros
    return own and position >= own.first and position + own.past - own.first or position
  end

  -- Converts a position or a rank in the sorted set to one among the ranked entries; -1 if the
  -- entry is not ranked.
  local function without(number, first, past)
    if number < first then return number end
    return number < past and -1 or number - (past - first)
  end

  function zeros.position(ranked, position)
    local own = ranked.zeros
    return own and without(position, own.first, own.past) or position
  end

  function zeros.rank(ranked, rank)
    local own = ranked.zeros
    return own and without(rank, own.first_rank, own.past_rank) or rank
  end
end
