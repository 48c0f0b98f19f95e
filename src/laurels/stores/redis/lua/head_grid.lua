-- Grids: they give the positions of members below the head, from the numbers of members by segment;
-- see head.lua.
do
  local BLOCK = 64
  local bit_fields = 900  -- the maximum number of counts that one BITFIELD changes
  local score_unit = scored and units[columns]
  local size = scored and 1 or columns
  local is_before, count_before = head.is_before, head.count_before
  local is_zero, listed_members = head.is_zero, head.listed_members

  local words_of_form = {}

  -- Returns the words of the score of a form, in a table that the next call reuses.
  local function score_words(form)
    if scored then
      words_of_form[1] = score_unit == 1 and form or floor(form / score_unit)
    else
      for i = 1, size do words_of_form[i] = decode_word(form, i) end
    end
    return words_of_form
  end

  local function tops_of(m) return math.ceil(m / BLOCK) end

  -- Decodes all edges of a grid. This costs as much as some 50 searches that decode only parts of
  -- it.
  local function load_whole(grid)
    if grid.whole then return end
    local m, whole = grid.m, {}
    local edges = m > 0 and call('GETRANGE', grid.e, text(8 * size * tops_of(m)), '-1') or ''
    local count, list = m * size, {}
    local format = '<' .. string.rep('d', BLOCK)
    local at = 1
    while at + BLOCK - 1 <= count do
      local decoded = {struct.unpack(format, edges, 8 * at - 7)}
      for i = 1, BLOCK do list[at + i - 1] = decoded[i] end
      at = at + BLOCK
    end
    while at <= count do
      list[at] = (struct.unpack('<d', edges, 8 * at - 7))
      at = at + 1
    end
    if size == 1 then
      whole[1] = list
    else
      for c = 1, size do
        whole[c] = {}
        for i = 1, m do whole[c][i] = list[(i - 1) * size + c] end
      end
    end
    grid.whole = whole
  end

  -- Returns how many of the first `count` edges are at or before the score with these words. The
  -- edges are packed in a text.
  local function search_text(edges, count, words)
    local low, high = 0, count
    while low < high do
      local middle = floor((low + high) / 2)
      local order = 0
      for c = 1, size do
        if order == 0 then
          order = (struct.unpack('<d', edges, 8 * (middle * size + c) - 7)) - words[c]
        end
      end
      if order <= 0 then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Returns how many of the ascending `edges` are at most `value`. If `near` is given, the search
  -- begins there: it is the answer for another value that is likely to be close.
  local function search_numbers(edges, m, value, near)
    local low, high = 0, m
    if near then
      local step = 1
      if near < m and edges[near + 1] <= value then
        low = near + 1
        while low + step <= m and edges[low + step] <= value do low, step = low + step, 2 * step end
        high = math.min(m, low + step - 1)
      elseif near > 0 and edges[near] > value then
        high = near - 1
        while high > step and edges[high - step] > value do high, step = high - step - 1, 2 * step end
        low = math.max(0, high - step)
      else
        return near
      end
    end
    while low < high do
      local middle = floor((low + high) / 2)
      if edges[middle + 1] <= value then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Returns the segment of a form: the number of edges that are at most its score. `near` is the segment of another
  -- form that is likely to be close, or nothing.
  local function segment_of(grid, form, near)
    local words = score_words(form)
    local m = grid.m
    if grid.whole then
      if size == 1 then return search_numbers(grid.whole[1], m, words[1], near) end
      local low, high = 0, m
      local first, value = grid.whole[1], words[1]
      while low < high do
        local middle = floor((low + high) / 2)
        local order = first[middle + 1] - value
        for c = 2, size do
          if order == 0 then order = grid.whole[c][middle + 1] - words[c] end
        end
        if order <= 0 then low = middle + 1 else high = middle end
      end
      return low
    end
    if m == 0 then return 0 end
    local tops = tops_of(m)
    grid.tops = grid.tops or call('GETRANGE', grid.e, '0', text(8 * size * tops - 1))
    local block = search_text(grid.tops, tops, words)
    if block == 0 then return 0 end
    grid.blocks = grid.blocks or {}
    local first = (block - 1) * BLOCK
    local edges = grid.blocks[block]
    if not edges then
      local from = 8 * size * (tops + first)
      edges = call('GETRANGE', grid.e, text(from), text(from + 8 * size * BLOCK - 1))
      grid.blocks[block] = edges
    end
    return first + search_text(edges, math.min(BLOCK, m - first), words)
  end

  local COUNTS = '>' .. string.rep('I4', BLOCK)  -- a format of 64 counts

  -- Reads all counts, adds `deltas` and writes all counts. Returns false, without a write, if not all are stored.
  local function rewrite_counts(grid, deltas)
    local base = grid.m + 1
    local count = base + tops_of(base)
    local stored = call('GETRANGE', grid.c, '0', '-1')
    if #stored ~= 4 * count then return false end
    stored = stored .. string.rep('\0', 4 * BLOCK)
    local counts, parts = {}, {}
    for first = 0, count - 1, BLOCK do counts[first / BLOCK] = {struct.unpack(COUNTS, stored, 4 * first + 1)} end
    local function add(i, delta)
      local some, own = counts[floor(i / BLOCK)], i % BLOCK + 1
      some[own] = some[own] + delta
    end
    for segment, delta in pairs(deltas) do
      add(segment, delta)
      add(base + floor(segment / BLOCK), delta)
    end
    for block = 0, #counts do parts[block + 1] = struct.pack(COUNTS, unpack(counts[block], 1, BLOCK)) end
    call('SETRANGE', grid.c, '0', sub(table.concat(parts), 1, 4 * count))
    return true
  end

  -- Adds `deltas`, by segment, to the counts of segments and of their blocks of 64.
  local function add_counts(grid, deltas)
    local changed = 0
    for _ in pairs(deltas) do changed = changed + 1 end
    if changed > BLOCK and 16 * changed > grid.m and rewrite_counts(grid, deltas) then return end
    local blocks, args, base = {}, {}, grid.m + 1
    for segment, delta in pairs(deltas) do
      if delta ~= 0 then
        local block = floor(segment / BLOCK)
        blocks[block] = (blocks[block] or 0) + delta
        local n = #args
        args[n + 1], args[n + 2], args[n + 3] = 'INCRBY', 'u32', '#' .. segment
        args[n + 4] = string.format('%d', delta)
      end
    end
    for block, delta in pairs(blocks) do
      if delta ~= 0 then
        local n = #args
        args[n + 1], args[n + 2], args[n + 3] = 'INCRBY', 'u32', '#' .. (base + block)
        args[n + 4] = string.format('%d', delta)
      end
    end
    for first = 1, #args, 4 * bit_fields do
      call('BITFIELD', grid.c, unpack(args, first, math.min(#args, first + 4 * bit_fields - 1)))
    end
  end

  -- Returns the counts of a grid from index `first` to `last`.
  local function read_counts(grid, first, last)
    if first > last then return {} end
    local stored = call('GETRANGE', grid.c, text(4 * first), text(4 * last + 3))
    local counts, count = {}, last - first + 1
    for i = 1, count do counts[i] = struct.unpack('>I4', stored, 4 * i - 3) end
    return counts
  end

  local function sum_of(numbers, count)
    local sum = 0
    for i = 1, count do sum = sum + numbers[i] end
    return sum
  end

  -- Returns two numbers of members: in all segments before a segment, and in this segment.
  local function count_segments(grid, segment)
    local block = floor(segment / BLOCK)
    local base = grid.m + 1
    local before = sum_of(read_counts(grid, base, base + block - 1), block)
    local inside = read_counts(grid, block * BLOCK, segment)
    local count = segment - block * BLOCK
    return before + sum_of(inside, count), inside[count + 1]
  end

  local function edge_words(grid, i)
    local from = 8 * size * (tops_of(grid.m) + i)
    local stored, words = call('GETRANGE', grid.e, text(from), text(from + 8 * size - 1)), {}
    for c = 1, size do words[c] = (struct.unpack('<d', stored, 8 * c - 7)) end
    return words
  end

  -- Returns whether all members of a segment have the same score.
  local function is_run(grid, segment)
    if segment == 0 or segment == grid.m then return false end
    local one, other = edge_words(grid, segment - 1), edge_words(grid, segment)
    for c = 1, size - 1 do
      if one[c] ~= other[c] then return false end
    end
    return one[size] + 1 == other[size]
  end

  -- Returns two numbers of listed members: before the segment of a form, and in this segment. The third result is
  -- the segment; without a grid it is missing, and all members are in one segment.
  local function count_around(ranked, s, form)
    local hidden = ranked.hidden
    if not s.grid then return 0, listed_members(s) - (hidden and zeros.count_hidden(ranked) or 0) end
    local segment = segment_of(s.grid, form)
    local before, own = count_segments(s.grid, segment)
    if hidden then
      local hidden_before, inside = zeros.hidden_around(ranked, segment, function(other)
        return segment_of(s.grid, other)
      end)
      before, own = before - hidden_before, own - inside
    end
    return before, own, segment
  end

  -- Returns three numbers, from 0, for a member with a form: its position, its rank, and `high`,
  -- the greatest possible rank. If the member does not precede the floor, position and rank are the
  -- least possible ones. All are -1 for a zero that is not ranked, and for a hidden member.
  function head.locate(ranked, form, member)
    local s, ordinal = head.state(ranked), B.rank == 'ordinal'
    if ranked.zeros and is_zero(form) or zeros.hides(ranked, member) then
      return {position = -1, rank = -1, high = -1}
    end
    if s.floor == nil or is_before(form, member, s.floor) then
      local position = call('ZRANK', ranked.r, entry_of(ranked, form, member))
      position = position and zeros.before(ranked, position)
      local rank = ordinal and position or zeros.before(ranked, exact_rank(ranked, form, member))
      return {position = position, rank = rank, high = rank}
    end
    local entries = head.certain(ranked)
    if s.refill or s.junk then
      entries = zeros.before(ranked, count_before(ranked, scored and {form = form, member = member}
        or {entry = entry_of(ranked, form, member)}))
    end
    local before, own, segment = count_around(ranked, s, form)
    local position, high = math.max(entries, before), before + own - 1
    if ordinal then return {position = position, rank = position, high = high} end
    local rank = math.max(before, zeros.before(ranked, exact_rank(ranked, form, member)))
    if segment and is_run(s.grid, segment) then high = rank end
    return {position = position, rank = rank, high = high}
  end

  -- Returns the least and the greatest possible number of members before a place in the order.
  -- `entries` is the number of entries of the head before the place. The place is among the members
  -- with `form`; with `leads`, it is before all members with the score of `form`. Both numbers are
  -- equal for a place among the exact positions.
  function head.bounds(ranked, form, entries, leads)
    local s = head.state(ranked)
    if not s.floor or entries < head.certain(ranked) then return entries, entries end
    local before, own, segment = count_around(ranked, s, form)
    if leads and segment and is_run(s.grid, segment) then own = 0 end
    return math.max(entries, before), before + own
  end

  local function unlink_samples(ranked)
    local names = {}
    for level = 0, 40 do names[level + 1] = ranked.gs .. text(level) end
    call('UNLINK', unpack(names))
  end

  local function unlink_grids(ranked, s)
    local name = ranked.name
    call('UNLINK', P .. 'ge:' .. name, P .. 'gc:' .. name, P .. 'ne:' .. name, P .. 'nc:' .. name)
    unlink_samples(ranked)
    s.grid, s.next, s.phase, s.build = nil, nil, nil, nil
  end

  head.BLOCK, head.score_unit, head.score_size = BLOCK, score_unit, size
  head.tops_of = tops_of
  head.load_whole = load_whole
  head.segment_of = segment_of
  head.add_counts = add_counts
  head.read_counts = read_counts
  head.sum_of = sum_of
  head.is_run = is_run
  head.unlink_samples = unlink_samples
  head.unlink_grids = unlink_grids
end
