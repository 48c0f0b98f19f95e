-- The making of a grid, in three phases: members are sampled, edges are chosen from the samples, and
-- members are counted by segment; see head.lua.
do
  local SPACE, BLOCK, score_unit, bucket_at = head.SPACE, head.BLOCK, head.score_unit, head.bucket_at
  local key_at, tops_of, load_whole = head.key_at, head.tops_of, head.load_whole
  local segment_of, add_counts, read_counts = head.segment_of, head.add_counts, head.read_counts
  local sum_of, is_run, unlink_samples = head.sum_of, head.is_run, head.unlink_samples
  local is_zero, listed_members = head.is_zero, head.listed_members
  local size, paced = head.score_size, head.paced

  -- Returns the maximum number of members of a segment, from the number of members that precede it.
  local function width_at(places)
    local sizes = head.sizes
    return math.max(sizes.width * places, sizes.width * sizes.k, sizes.least)
  end

  -- Begins a new grid. Level l samples the members of every 2^l-th bucket. A sample that has grown
  -- too large is cut: only the members that stand highest stay in it. `build` has:
  --   first    the lowest sampled level: the sparsest one that has enough members near the head
  --   last     the highest sampled level; its sample is never cut
  --   visits   the number of buckets visited so far
  --   seen     by level: the number of members in the sampled buckets
  --   cuts     by level: the greatest first word that the latest cut left in the sample. Members
  --            with a greater one are not sampled any more. False before the first cut
  --   changes  the number of changes when the grid was begun
  -- In the phase `count`, `build` is only the number `changes`.
  local function begin_grid(ranked, s)
    local sizes = head.sizes
    unlink_samples(ranked)
    call('UNLINK', P .. 'ne:' .. ranked.name, P .. 'nc:' .. ranked.name)
    local certain = head.certain(ranked)
    local first = math.max(0, floor(math.log(certain / (sizes.sample / 2)) / math.log(2)))
    local last = math.max(first, math.ceil(math.log(listed_members(s) / sizes.sample) / math.log(2)))
    local build = {first = first, last = last, visits = 0, seen = {}, cuts = {}, changes = s.changes}
    for i = 1, last - first + 1 do build.seen[i], build.cuts[i] = 0, false end
    s.phase, s.cursor, s.next, s.build = 'sample', 0, nil, cmsgpack.pack(build)
  end

  -- Returns the contents of a bucket, without the zeros if these are hidden. Also returns the number
  -- of members of the bucket, zeros included.
  local function without_zeros(s, entries)
    if not s.hides then return entries, #entries / 2 end
    local rest = {}
    for i = 1, #entries, 2 do
      local form = entries[i + 1]
      if not is_zero(scored and tonumber(form) or form) then
        rest[#rest + 1], rest[#rest + 2] = entries[i], form
      end
    end
    return rest, #entries / 2
  end

  local function sample_entries(ranked, entries, cut, adds)
    for i = 1, #entries, 2 do
      local form = entries[i + 1]
      local first, score, name
      if scored then
        first = floor(tonumber(form) / score_unit)
        score, name = text(first), entries[i]
      else
        first = decode_word(form, 1)
        score, name = '0', sub(form, 1, 8 * size) .. entries[i]
      end
      if not cut or first <= cut then adds[#adds + 1], adds[#adds + 2] = score, name end
    end
  end

  -- Returns the words of a sampled member, by its position in the sample.
  local function sampled(pool, position)
    local at = text(position)
    if scored then return {tonumber(call('ZRANGE', pool, at, at, 'WITHSCORES')[2])} end
    local entry, words = call('ZRANGE', pool, at, at)[1], {}
    for c = 1, size do words[c] = decode_word(entry, c) end
    return words
  end

  -- Cuts a sample back to its size when it has grown by a quarter. If it were cut less often, each
  -- cut would remove more members, and the call that cuts it would take longer.
  local function cut_sample(pool)
    local sizes = head.sizes
    local count = call('ZCARD', pool)
    if count <= 1.25 * sizes.sample then return nil end
    call('ZREMRANGEBYRANK', pool, text(sizes.sample), '-1')
    return sampled(pool, sizes.sample - 1)[1]
  end

  -- Returns the factor by which the steps between edges have to be multiplied so that `sizes.edges`
  -- edges suffice.
  local function stretch_for(members)
    local sizes = head.sizes
    local least = math.max(sizes.step * sizes.k, sizes.least / 4)
    local steps = math.min(members, least / sizes.step) / least
    if members > least / sizes.step then
      steps = steps + math.log(members * sizes.step / least) / sizes.step
    end
    return math.max(1, 1.2 * steps / sizes.edges)
  end

  local function continue_sample(ranked, s, limit)
    local build = cmsgpack.unpack(s.build)
    while s.cursor < SPACE and limit > 0 do
      local id, past = bucket_at(s, s.cursor)
      local level, visits = build.last, build.visits
      if visits > 0 then
        level = 0
        while visits % 2 == 0 and level < build.last do visits, level = visits / 2, level + 1 end
      end
      if level >= build.first then
        local bucket, members = without_zeros(s, call('HGETALL', ranked.b .. text(id)))
        for own = build.first, level do
          local i, pool, adds = own - build.first + 1, ranked.gs .. text(own), {}
          build.seen[i] = build.seen[i] + #bucket / 2
          sample_entries(ranked, bucket, build.cuts[i], adds)
          send('ZADD', pool, adds)
          head.expire_key(ranked, pool)
          if own < build.last then build.cuts[i] = cut_sample(pool) or build.cuts[i] end
          limit = limit - members - #adds
        end
        limit = paced(limit)
      end
      limit = limit - 1
      build.visits, s.cursor = build.visits + 1, past
    end
    if s.cursor >= SPACE then
      s.phase, s.cursor = 'edges', 0
      build.target, build.picked = head.sizes.first, {}
      build.source, build.members, build.stretch = -1, listed_members(s), stretch_for(listed_members(s))
    end
    s.build = cmsgpack.pack(build)
    return limit
  end

  local function compare_words(one, other)
    for c = 1, size do
      if one[c] ~= other[c] then return one[c] - other[c] end
    end
    return 0
  end

  -- Adds an edge at the score of a member, unless the score is before the last edge. If the score
  -- is equal to the last edge, adds an edge immediately after the score instead.
  local function pick(build, words, edges)
    local last, chosen = build.picked[1], {unpack(words, 1, size)}
    local order = last and compare_words(words, last) or 1
    if order < 0 then return end
    if order == 0 and build.is_after then
      build.is_after = false
      return
    elseif order == 0 then
      chosen[size], build.is_after = chosen[size] + 1, true
    else
      build.is_after = false
    end
    build.picked[1] = chosen
    edges[#edges + 1] = chosen
  end

  -- Ends the choice of edges: stores every 64th edge in front of the list of all edges, and sets
  -- all counts to 0.
  local function begin_count(ranked, s, build)
    local name = P .. 'ne:' .. ranked.name
    unlink_samples(ranked)
    local m, all, tops = s.cursor, call('GET', name) or '', {}
    for first = 0, m - 1, BLOCK do
      tops[#tops + 1] = sub(all, 8 * size * first + 1, 8 * size * (first + 1))
    end
    call('SET', name, table.concat(tops) .. all)
    s.next = {e = name, c = P .. 'nc:' .. ranked.name, m = m}
    call('DEL', s.next.c)
    call('SETRANGE', s.next.c, text(4 * (m + 1 + tops_of(m + 1)) - 1), '\0')
    s.phase, s.cursor, s.build = 'count', 0, text(build.changes)
    head.expire_key(ranked, name)
    head.expire_key(ranked, s.next.c)
  end

  -- Continues to choose edges, from the head first and then from each sample, until `limit` is used up. What a
  -- later call needs is in `build`:
  --   target   the number of members that precede the next edge
  --   stretch  see `stretch_for`
  --   source   where edges are chosen from: -1 for the head, or a level
  --   members  the number of members when the samples were complete
  --   picked   the last edge; `is_after`: whether that edge is immediately after a score
  -- Writes between two calls move the positions in the head, but never make the edges descend: see `pick`.
  local function continue_edges(ranked, s, limit)
    local sizes = head.sizes
    local build, edges = cmsgpack.unpack(s.build), {}
    local pool, scale, entries
    if build.source < 0 then
      scale, entries = 1, head.certain(ranked)
    else
      local own = build.seen[build.source - build.first + 1]
      pool = ranked.gs .. text(build.source)
      scale, entries = own / math.max(1, build.members), call('ZCARD', pool)
    end
    local function is_left()
      return floor(build.target * scale) < entries and s.cursor + #edges < sizes.edges
    end
    while limit > 0 and is_left() do
      local position = floor(build.target * scale)
      local words
      if pool then
        words = sampled(pool, position)
      else
        local key = key_at(ranked, position)
        words = scored and {floor(key.form / score_unit)} or {unpack(key.words, 1, size)}
      end
      pick(build, words, edges)
      local step = math.max(sizes.step * build.target, sizes.step * sizes.k, sizes.least / 4)
      build.target = build.target + build.stretch * step
      limit = limit - 4
    end
    local parts = {}
    for i, words in ipairs(edges) do
      for c = 1, size do parts[#parts + 1] = struct.pack('<d', words[c]) end
    end
    local name = P .. 'ne:' .. ranked.name
    if #parts > 0 then call('APPEND', name, table.concat(parts)) end
    head.expire_key(ranked, name)
    local is_done = not is_left()
    s.cursor = s.cursor + #edges
    if is_done then build.source = build.source < 0 and build.first or build.source + 1 end
    if build.source > build.last or s.cursor >= sizes.edges then
      begin_count(ranked, s, build)
      return limit
    end
    s.build = cmsgpack.pack(build)
    return limit
  end

  local function count_of_all(grid)
    local base = grid.m + 1
    return sum_of(read_counts(grid, base, base + tops_of(base) - 1), tops_of(base))
  end

  -- Replaces the old grid by the new one. If the new counts do not add up to the number of members,
  -- begins another grid.
  local function finish_grid(ranked, s)
    local name = ranked.name
    if count_of_all(s.next) ~= listed_members(s) then return begin_grid(ranked, s) end
    call('RENAME', s.next.e, P .. 'ge:' .. name)
    call('RENAME', s.next.c, P .. 'gc:' .. name)
    s.grid = {e = P .. 'ge:' .. name, c = P .. 'gc:' .. name, m = s.next.m}
    s.changes = s.changes - tonumber(s.build)
    s.next, s.phase, s.build = nil, nil, nil
    s.check = math.max(head.sizes.least, floor(s.n / 50))
  end

  local function continue_count(ranked, s, limit)
    local deltas = {}
    load_whole(s.next)
    while s.cursor < SPACE and limit > 0 do
      local id, past = bucket_at(s, s.cursor)
      local forms = call('HVALS', ranked.b .. text(id))
      for i = 1, #forms do
        local form = scored and tonumber(forms[i]) or forms[i]
        if not (s.hides and is_zero(form)) then
          local own = segment_of(s.next, form)
          deltas[own] = (deltas[own] or 0) + 1
        end
      end
      limit = paced(limit - #forms - 2)
      s.cursor = past
    end
    add_counts(s.next, deltas)
    if s.cursor >= SPACE then finish_grid(ranked, s) end
    return limit
  end

  -- Returns whether any segment below the exact part of the head has more members than allowed.
  local function is_outgrown(ranked, s)
    local grid = s.grid
    local numbers, places, certain = read_counts(grid, 0, grid.m), 0, head.certain(ranked)
    for i = 1, grid.m + 1 do
      local first = math.max(places, certain)
      places = places + numbers[i]
      if places - first > width_at(first) and not is_run(grid, i - 1) then return true end
    end
    return false
  end

  head.begin_grid = begin_grid
  head.continue_sample = continue_sample
  head.continue_edges = continue_edges
  head.continue_count = continue_count
  head.is_outgrown = is_outgrown
  head.without_zeros = without_zeros
end
