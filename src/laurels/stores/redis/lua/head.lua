-- The layout of a board with a head: the best entries in order, everyone else counted by segments.
--
-- Keys of a ranking <r>, besides P r:<r>, which has the entries of the head only:
--   P b:<r>:<id>   a bucket, hash: member -> form, small enough to be stored compactly
--   P g:<r>        hash: the state, see FIELDS
--   P ge:<r>       the edges of the grid: every 64th edge, then all, each as `size` doubles
--   P gc:<r>       the numbers of members by segment, then by 64 segments, each as 4 bytes
--   P ne:<r>, nc:  the same of the grid that is being made
--   P gs:<r>:<l>   sorted set: the best members in every 2^l-th bucket, while a grid is being made
--
-- Invariants (`check` in audit.lua verifies them):
--   1. Each member is in exactly one bucket, which follows from its digest.
--   2. The head has exactly the members that precede the floor. Without a floor it has all.
--      While a refill is in progress, members that it has visited are compared with `raised` instead;
--      while `junk` is set, the head may have more entries, at its end.
--   3. The number of a segment is the number of members whose score is at least the edge before it and
--      less than the edge after it; in a grid that is being counted, of those the pass has visited.
-- So the entries before the floor are exact, and the position of any other member is at least the sum
-- of the numbers of all segments before its own and less than that sum with its own.
--
-- Buckets divide the space of digests, 0 to 2^32, into intervals: with 2^L + p buckets, the first p of
-- 2^L equal intervals are divided once more (linear hashing by the leading bits). Bucket `id` has the
-- children 2 id and 2 id + 1. A pass visits the buckets in the order of their intervals, and its cursor
-- is the end of the last one: a member has been visited if its digest is less than the cursor, however
-- buckets are divided meanwhile. So nobody is counted twice or left out, and a pass may stop anywhere,
-- or be continued by any process.
--
-- Scores are compared by columns only, as numbers: `score_words`. In a grid an edge follows a run of
-- equal scores immediately if the run is long, so that the run has a segment of its own.
do
  local SPACE, BLOCK = 4294967296, 64
  local H = B.head or nil
  local BUCKETS_MOST = 1000  -- how many buckets one call removes
  local bit_fields = 900  -- how many fields one BITFIELD changes
  local score_unit = scored and units[columns]
  local size = scored and 1 or columns
  local sha1hex = redis.sha1hex

  head.sizes = H

  -- Uses the stored sizes on a board that had a head: then all members belong into the head.
  function head.use(stored)
    if B.head or not stored then return end
    H = cmsgpack.unpack(stored)
    H.k, H.keep, H.refill, H.is_gone = math.huge, math.huge, math.huge, true
    head.sizes = H
  end

  -- State

  local FIELDS = {'n', 'buckets', 'salt', 'floor', 'refill', 'raised', 'junk', 'edges', 'changes',
                  'check', 'phase', 'cursor', 'build', 'counted', 'moving'}
  -- n         number of members                  edges    number of edges of the grid, absent without one
  -- buckets   number of buckets                  changes  changes since the edges began to be chosen
  -- salt      put before members in digests      check    the number of changes at which to look at widths
  -- floor     see invariant 2                    phase    of the grid being made: sample, edges or count
  -- refill    cursor of the refill               cursor   of that phase
  -- raised    floor of the members it visited    build    see `begin_grid`
  -- junk      see invariant 2                    counted  number of edges of that grid
  -- moving    where members are moved from the layout without a head into buckets, see `move`

  local function decode_key(stored)
    if not stored or stored == '' then return nil end
    if scored then
      local form, member = string.match(stored, '^([^:]*):(.*)$')
      return {form = tonumber(form), member = member}
    end
    local words = {}
    for i = 1, width do words[i] = decode_word(stored, i) end
    return {words = words, member = sub(stored, 8 * width + 1), entry = stored}
  end

  local function encode_key(key)
    if not key then return '' end
    return scored and text(key.form) .. ':' .. key.member or key.entry
  end

  local function measure_buckets(s)
    local _, exponent = math.frexp(s.buckets)
    s.level = 2 ^ (exponent - 1)
    s.split = s.buckets - s.level
  end

  function head.state(ranked)
    if ranked.state then return ranked.state end
    local name = ranked.name
    ranked.g, ranked.b = P .. 'g:' .. name, P .. 'b:' .. name .. ':'
    ranked.gs = P .. 'gs:' .. name .. ':'
    local f = call('HMGET', ranked.g, unpack(FIELDS))
    local s = {
      n = tonumber(f[1] or '0'), buckets = tonumber(f[2] or '1'), salt = f[3] or nil,
      floor = decode_key(f[4]), refill = tonumber(f[5] or nil), raised = decode_key(f[6]),
      junk = f[7] == '1', changes = tonumber(f[9] or '0'), check = tonumber(f[10] or '0'),
      phase = f[11] or nil, cursor = tonumber(f[12] or '0'), build = f[13] or nil, hashes = {},
      moving = f[15] or nil, outside = {},
    }
    if f[8] then s.grid = {e = P .. 'ge:' .. name, c = P .. 'gc:' .. name, m = tonumber(f[8])} end
    if f[14] then s.next = {e = P .. 'ne:' .. name, c = P .. 'nc:' .. name, m = tonumber(f[14])} end
    measure_buckets(s)
    ranked.state = s
    return s
  end

  -- Writes the state. Fields that are not set are removed.
  local function save(ranked)
    local s = ranked.state
    local values = {
      text(s.n), text(s.buckets), s.salt or '', encode_key(s.floor), s.refill and text(s.refill) or '',
      encode_key(s.raised), s.junk and '1' or '', s.grid and text(s.grid.m) or '', text(s.changes),
      text(s.check), s.phase or '', s.phase and text(s.cursor) or '', s.build or '',
      s.next and text(s.next.m) or '', s.moving or '',
    }
    local args, gone = {}, {}
    for i, field in ipairs(FIELDS) do
      if values[i] == '' then
        gone[#gone + 1] = field
      else
        args[#args + 1], args[#args + 2] = field, values[i]
      end
    end
    call('HSET', ranked.g, unpack(args))
    if #gone > 0 then call('HDEL', ranked.g, unpack(gone)) end
  end

  -- Buckets

  local function digest_of(s, member)
    local own = s.hashes[member]
    if not own then
      own = tonumber(sub(sha1hex(s.salt .. member), 1, 8), 16)
      s.hashes[member] = own
    end
    return own
  end

  -- Returns the bucket with a digest, and the end of its interval.
  local function bucket_at(s, digest)
    local parts = s.level
    local t = floor(digest / (SPACE / parts))
    if t < s.split then
      parts = 2 * parts
      t = floor(digest / (SPACE / parts))
    end
    return parts + t, (t + 1) * (SPACE / parts)
  end

  -- Divides the next bucket in two.
  local function divide(ranked, s)
    local id = s.level + s.split
    local from, first, second = ranked.b .. text(id), ranked.b .. text(2 * id), ranked.b .. text(2 * id + 1)
    local middle = (2 * s.split + 1) * (SPACE / (2 * s.level))
    local found, moved, gone = call('HGETALL', from), {}, {}
    for i = 1, #found, 2 do
      local digest = tonumber(sub(sha1hex(s.salt .. found[i]), 1, 8), 16)
      if digest >= middle then
        moved[#moved + 1], moved[#moved + 2], gone[#gone + 1] = found[i], found[i + 1], found[i]
      end
    end
    if #found > 0 then call('RENAME', from, first) end
    send('HDEL', first, gone)
    send('HSET', second, moved)
    if #moved > 0 then head.expire_key(ranked, second) end
    s.buckets = s.buckets + 1
    measure_buckets(s)
  end

  function head.forms_of(ranked, names)
    local s, found = head.state(ranked), {}
    if s.n == 0 and not s.moving then
      for i = 1, #names do found[i] = false end
      return found
    end
    local prefix = ranked.b
    for i = 1, #names do
      local name = names[i]
      local form = call('HGET', prefix .. string.format('%d', (bucket_at(s, digest_of(s, name)))), name)
      if s.moving and not form then
        form = scored and call('ZSCORE', ranked.r, name) or not scored and call('HGET', ranked.k, name)
        s.outside[name] = form and true
      end
      found[i] = form and (scored and tonumber(form) or form)
    end
    return found
  end

  -- Returns the number of members.
  function head.size(ranked)
    local s = head.state(ranked)
    return s.moving and call('ZCARD', ranked.r) or s.n
  end

  -- Keys: an entry of the head, or the floor, as {form, member} or {words, member}

  -- Whether a member with a form precedes a key.
  local function is_before(form, member, key)
    if not key then return true end
    if scored then
      if form ~= key.form then return form < key.form end
      return precedes(member, key.member)
    end
    for i = 1, width do
      local word = decode_word(form, i)
      if word ~= key.words[i] then return word < key.words[i] end
    end
    return precedes(member, key.member)
  end

  local function key_before(one, other)
    if not other then return one ~= nil end
    if not one then return false end
    return is_before(scored and one.form or one.entry, one.member, other)
  end

  -- Returns the key at a position of the head.
  local function key_at(ranked, position)
    local at = text(position)
    if scored then
      local found = call('ZRANGE', ranked.r, at, at, 'WITHSCORES')
      return {member = found[1], form = tonumber(found[2])}
    end
    return decode_key(call('ZRANGE', ranked.r, at, at)[1])
  end

  -- Returns how many entries of the head precede a key.
  local function count_before(ranked, key)
    if not scored then return call('ZLEXCOUNT', ranked.r, '-', '(' .. key.entry) end
    local low = call('ZCOUNT', ranked.r, '-inf', '(' .. text(key.form))
    local high = call('ZCOUNT', ranked.r, '-inf', text(key.form))
    while low < high do
      local middle = floor((low + high) / 2)
      local member = call('ZRANGE', ranked.r, text(middle), text(middle))[1]
      if precedes(member, key.member) then low = middle + 1 else high = middle end
    end
    return low
  end

  -- Returns how many entries, from the first one on, are at their exact positions.
  function head.certain(ranked)
    local s = head.state(ranked)
    if s.certain then return s.certain end
    if not s.floor then return head.size(ranked) end
    if s.refill or s.junk then
      s.certain = count_before(ranked, s.floor)
    else
      s.certain = call('ZCARD', ranked.r)
    end
    return s.certain
  end

  -- Trimming

  -- Removes entries behind the floor from the end of the head, at most `limit` of them.
  local function remove_junk(ranked, s, limit)
    local excess = call('ZCARD', ranked.r) - count_before(ranked, s.floor)
    local now = math.min(excess, limit)
    if now > 0 then call('ZREMRANGEBYRANK', ranked.r, text(-now), '-1') end
    s.junk = excess > now
    return now
  end

  local function cancel_refill(s) s.refill, s.raised = nil, nil end

  -- Raises the floor if the head has too many entries.
  local function trim(ranked, s)
    local entries = call('ZCARD', ranked.r)
    if s.junk or s.moving or entries <= H.keep + H.chunk then return end
    local cut = key_at(ranked, H.keep)
    if not s.refill or key_before(cut, s.floor) then
      s.floor = cut
      cancel_refill(s)
    else
      s.raised = cut
    end
    s.certain = nil
    local excess = entries - H.keep
    local now = s.refill and excess or math.min(excess, H.chunk + H.trims)
    call('ZREMRANGEBYRANK', ranked.r, text(-now), '-1')
    s.junk = excess > now
  end

  -- Grids

  local words_of_form = {}

  -- Returns the words of the score of a form, in a table that the next call changes.
  local function score_words(form)
    if scored then
      words_of_form[1] = floor(form / score_unit)
    else
      for i = 1, size do words_of_form[i] = decode_word(form, i) end
    end
    return words_of_form
  end

  local function tops_of(m) return math.ceil(m / BLOCK) end

  -- Decodes all edges of a grid. That costs as much as some 50 searches in parts of it.
  local function load_whole(grid)
    if grid.whole then return end
    local m, whole = grid.m, {}
    local edges = m > 0 and call('GETRANGE', grid.e, text(8 * size * tops_of(m)), '-1') or ''
    local count, list = m * size, {}
    local format = '<' .. string.rep('d', BLOCK)
    local at = 1
    while at + BLOCK - 1 <= count do
      local found = {struct.unpack(format, edges, 8 * at - 7)}
      for i = 1, BLOCK do list[at + i - 1] = found[i] end
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

  -- Returns how many of the first `count` edges in a text are at most these words.
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

  -- Returns the segment of a form: the number of edges that are at most its score.
  local function segment_of(grid, form)
    local words = score_words(form)
    local m = grid.m
    if grid.whole then
      local low, high = 0, m
      local first, value = grid.whole[1], words[1]
      if size == 1 then
        while low < high do
          local middle = floor((low + high) / 2)
          if first[middle + 1] <= value then low = middle + 1 else high = middle end
        end
        return low
      end
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

  -- Adds to the numbers of segments, and to those of their blocks.
  local function add_counts(grid, deltas)
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

  -- Returns numbers of a grid, from one index to another.
  local function read_counts(grid, first, last)
    if first > last then return {} end
    local stored = call('GETRANGE', grid.c, text(4 * first), text(4 * last + 3))
    local found, count = {}, last - first + 1
    for i = 1, count do found[i] = struct.unpack('>I4', stored, 4 * i - 3) end
    return found
  end

  local function sum_of(numbers, count)
    local sum = 0
    for i = 1, count do sum = sum + numbers[i] end
    return sum
  end

  -- Returns the number of members in all segments before one, and in it.
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

  -- Whether all members of a segment have the same score.
  local function is_run(grid, segment)
    if segment == 0 or segment == grid.m then return false end
    local one, other = edge_words(grid, segment - 1), edge_words(grid, segment)
    for c = 1, size - 1 do
      if one[c] ~= other[c] then return false end
    end
    return one[size] + 1 == other[size]
  end

  -- Returns the position of a member with a form, its rank, and `high`, the greatest rank that it can
  -- have. If it does not precede the floor, position and rank are the least ones it can have. All are
  -- from 0.
  function head.locate(ranked, form, member)
    local s, ordinal = head.state(ranked), B.rank == 'ordinal'
    if s.floor == nil or is_before(form, member, s.floor) then
      local position = call('ZRANK', ranked.r, entry_of(ranked, form, member))
      local rank = ordinal and position or exact_rank(ranked, form, member)
      return {position = position, rank = rank, high = rank}
    end
    local position, high = head.certain(ranked), s.n - 1
    if s.refill or s.junk then
      position = count_before(ranked, scored and {form = form, member = member}
        or {entry = entry_of(ranked, form, member)})
    end
    local rank = ordinal and position or exact_rank(ranked, form, member)
    if s.grid then
      local segment = segment_of(s.grid, form)
      local before, own = count_segments(s.grid, segment)
      position, rank = math.max(position, before), math.max(rank, before)
      high = math.min(high, before + own - 1)
      if not ordinal and is_run(s.grid, segment) then high = rank end
    end
    return {position = position, rank = rank, high = high}
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

  -- Writing

  -- Returns the id of the server process.
  local function process_id() return string.match(call('INFO', 'server'), 'run_id:(%x+)') end

  local function begin_state(s)
    if s.salt then return end
    s.salt, s.is_new = sub(sha1hex(process_id() .. KEYS[1]), 1, 8), true
  end

  function head.replace_forms(ranked, names, olds, news)
    local s = head.state(ranked)
    begin_state(s)
    local adds, drops, added, wrote = {}, {}, 0, 0
    local grid, next_grid = s.grid, s.phase == 'count' and s.next or nil
    local deltas, next_deltas = {}, {}
    if grid and 20 * #names > grid.m then load_whole(grid) end
    if next_grid and 20 * #names > next_grid.m then load_whole(next_grid) end
    local was_some = s.n > 0
    for i = 1, #names do
      local member, old, new = names[i], olds[i], news[i]
      if old ~= new then
        wrote = wrote + 1
        local digest = digest_of(s, member)
        local key = ranked.b .. string.format('%d', (bucket_at(s, digest)))
        if new then
          call('HSET', key, member, scored and text(new) or new)
          if not old or s.outside[member] then
            s.n = s.n + 1
            if B.lives then head.expire_key(ranked, key) end
          end
        elseif not s.outside[member] then
          call('HDEL', key, member)
          s.n = s.n - 1
        end
        if s.outside[member] then
          if not scored then call('HDEL', ranked.k, member) end
          s.outside[member] = nil
        end
        local bound = s.floor
        if s.refill and digest < s.refill then bound = s.raised end
        local was, is = old and (s.junk or is_before(old, member, bound)), new and is_before(new, member, bound)
        if scored then
          if is then
            adds[added + 1], adds[added + 2], added = text(new), member, added + 2
          elseif was then
            drops[#drops + 1] = member
          end
        elseif was or is then
          local left, entered = was and entry_of(ranked, old, member), is and entry_of(ranked, new, member)
          if left ~= entered then
            if left then drops[#drops + 1] = left end
            if entered then adds[added + 1], adds[added + 2], added = '0', entered, added + 2 end
          end
        end
        if grid then
          local from, to = old and segment_of(grid, old), new and segment_of(grid, new)
          if from ~= to then
            if from then deltas[from] = (deltas[from] or 0) - 1 end
            if to then deltas[to] = (deltas[to] or 0) + 1 end
          end
        end
        if next_grid and digest < s.cursor then
          local from, to = old and segment_of(next_grid, old), new and segment_of(next_grid, new)
          if from ~= to then
            if from then next_deltas[from] = (next_deltas[from] or 0) - 1 end
            if to then next_deltas[to] = (next_deltas[to] or 0) + 1 end
          end
        end
      end
    end
    if wrote == 0 then return end
    send('ZREM', ranked.r, drops)
    send('ZADD', ranked.r, adds)
    if grid then add_counts(grid, deltas) end
    if next_grid then add_counts(next_grid, next_deltas) end
    s.certain = nil
    s.changes = s.changes + wrote
    local divisions = 2 + floor(#names / 16)
    while divisions > 0 and s.n > s.buckets * H.capacity do
      divide(ranked, s)
      divisions = divisions - 1
    end
    trim(ranked, s)
    if s.n == 0 and was_some and not s.moving then
      unlink_grids(ranked, s)
      s.floor, s.junk = nil, false
      cancel_refill(s)
    end
    if head.begin_due_work(ranked, s) then
      head.is_due = true
      call('SADD', P .. 'gd', ranked.name)
    end
    save(ranked)
    if B.lives then
      head.expire_key(ranked, ranked.r)
      if s.is_new then head.expire_key(ranked, ranked.g) end
    end
  end

  -- Passes

  -- Continues the refill by about `limit` members; returns what is left of the limit.
  local function refill(ranked, s, limit)
    while s.refill and s.refill < SPACE and limit > 0 do
      local id, past = bucket_at(s, s.refill)
      local found, adds = call('HGETALL', ranked.b .. text(id)), {}
      for i = 1, #found, 2 do
        local member, form = found[i], found[i + 1]
        if scored then form = tonumber(form) end
        if not is_before(form, member, s.floor) and is_before(form, member, s.raised) then
          local n = #adds
          adds[n + 1] = scored and text(form) or '0'
          adds[n + 2] = entry_of(ranked, form, member)
        end
      end
      send('ZADD', ranked.r, adds)
      s.refill = past
      limit = limit - #found / 2 - #adds - 4
      if #adds > 0 then trim(ranked, s) end
    end
    if s.refill and s.refill >= SPACE then
      s.floor = s.raised
      cancel_refill(s)
    end
    s.certain = nil
    return limit
  end

  -- Moves members that are only in the sorted set, or in the hash of the layout without a head, into buckets;
  -- returns how many. A cursor is valid only in the server process that returned it. Events meanwhile
  -- write buckets, and at the end everyone must have been found there.
  local function move(ranked, s, limit)
    local process, cursor = string.match(s.moving, '^(%x*):(%d+)$')
    local own, gone = process_id(), {}
    local from = scored and ranked.r or ranked.k
    local found = call(scored and 'ZSCAN' or 'HSCAN', from, process == own and cursor or '0', 'COUNT',
                       text(math.ceil(limit)))
    for i = 1, #found[2], 2 do
      local member, form = found[2][i], found[2][i + 1]
      local key = ranked.b .. text((bucket_at(s, digest_of(s, member))))
      if call('HSETNX', key, member, scored and text(tonumber(form)) or form) == 1 then
        s.n = s.n + 1
        head.expire_key(ranked, key)
      end
      gone[#gone + 1] = member
    end
    if not scored then send('HDEL', ranked.k, gone) end
    while s.n > s.buckets * H.capacity do divide(ranked, s) end
    s.moving = own .. ':' .. found[1]
    if found[1] == '0' and s.n == call('ZCARD', ranked.r) then
      s.moving = nil
      call('UNLINK', ranked.k or ranked.name)
    end
    return #gone + 2
  end

  -- How many places a segment after this many members may have.
  local function width_at(places)
    return math.max(H.width * places, H.width * H.k, H.least)
  end

  -- Begins a new grid. `build` has: first, the sparsest level whose sample has enough members near the
  -- head; last, the level whose sample is not cut; visits, how many buckets were visited; seen, by
  -- level, how many members; cuts, by level, the first word from which on members are left out; changes,
  -- the number of changes at the beginning, which is all that is left in the phase `count`.
  local function begin_grid(ranked, s)
    unlink_samples(ranked)
    call('UNLINK', P .. 'ne:' .. ranked.name, P .. 'nc:' .. ranked.name)
    local certain = head.certain(ranked)
    local first = math.max(0, floor(math.log(certain / (H.sample / 2)) / math.log(2)))
    local last = math.max(first, math.ceil(math.log(s.n / H.sample) / math.log(2)))
    local build = {first = first, last = last, visits = 0, seen = {}, cuts = {}, changes = s.changes}
    for i = 1, last - first + 1 do build.seen[i], build.cuts[i] = 0, false end
    s.phase, s.cursor, s.next, s.build = 'sample', 0, nil, cmsgpack.pack(build)
  end

  local function sample_entries(ranked, found, cut, adds)
    for i = 1, #found, 2 do
      local form = found[i + 1]
      local first, score, name
      if scored then
        first = floor(tonumber(form) / score_unit)
        score, name = text(first), found[i]
      else
        first = decode_word(form, 1)
        score, name = '0', sub(form, 1, 8 * size) .. found[i]
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

  local function cut_sample(pool)
    local count = call('ZCARD', pool)
    if count <= 2 * H.sample then return nil end
    call('ZREMRANGEBYRANK', pool, text(H.sample), '-1')
    return sampled(pool, H.sample - 1)[1]
  end

  -- Returns by how much the steps between edges have to be multiplied, so that all edges suffice.
  local function stretch_for(members)
    local least = math.max(H.step * H.k, H.least / 4)
    local steps = math.min(members, least / H.step) / least
    if members > least / H.step then steps = steps + math.log(members * H.step / least) / H.step end
    return math.max(1, 1.2 * steps / H.edges)
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
        local found = call('HGETALL', ranked.b .. text(id))
        for own = build.first, level do
          local i, pool, adds = own - build.first + 1, ranked.gs .. text(own), {}
          build.seen[i] = build.seen[i] + #found / 2
          sample_entries(ranked, found, build.cuts[i], adds)
          send('ZADD', pool, adds)
          head.expire_key(ranked, pool)
          if own < build.last then build.cuts[i] = cut_sample(pool) or build.cuts[i] end
          limit = limit - #found / 2 - #adds
        end
      end
      limit = limit - 1
      build.visits, s.cursor = build.visits + 1, past
    end
    if s.cursor >= SPACE then
      s.phase, s.cursor = 'edges', 0
      build.target, build.picked = H.first, {}
      build.source, build.members, build.stretch = -1, s.n, stretch_for(s.n)
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

  -- Adds an edge before the words of a member, unless it is not after the last edge; a score that is
  -- picked twice gets an edge after it, too.
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

  -- Chooses the edges of one source: of the head, then of each sample.
  local function continue_edges(ranked, s, limit)
    local build, edges = cmsgpack.unpack(s.build), {}
    local pool, scale, entries
    if build.source < 0 then
      scale, entries = 1, head.certain(ranked)
    else
      local own = build.seen[build.source - build.first + 1]
      pool = ranked.gs .. text(build.source)
      scale, entries = own / math.max(1, build.members), call('ZCARD', pool)
    end
    while floor(build.target * scale) < entries and s.cursor + #edges < H.edges do
      local position = floor(build.target * scale)
      local words
      if pool then
        words = sampled(pool, position)
      else
        local key = key_at(ranked, position)
        words = scored and {floor(key.form / score_unit)} or {unpack(key.words, 1, size)}
      end
      pick(build, words, edges)
      local step = math.max(H.step * build.target, H.step * H.k, H.least / 4)
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
    s.cursor = s.cursor + #edges
    build.source = build.source < 0 and build.first or build.source + 1
    if build.source > build.last or s.cursor >= H.edges then
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
      return limit
    end
    s.build = cmsgpack.pack(build)
    return limit
  end

  local function count_of_all(grid)
    local base = grid.m + 1
    return sum_of(read_counts(grid, base, base + tops_of(base) - 1), tops_of(base))
  end

  -- Puts the new grid in place of the old one, if its numbers add up.
  local function finish_grid(ranked, s)
    local name = ranked.name
    if count_of_all(s.next) ~= s.n then return begin_grid(ranked, s) end
    call('RENAME', s.next.e, P .. 'ge:' .. name)
    call('RENAME', s.next.c, P .. 'gc:' .. name)
    s.grid = {e = P .. 'ge:' .. name, c = P .. 'gc:' .. name, m = s.next.m}
    s.changes = s.changes - tonumber(s.build)
    s.next, s.phase, s.build = nil, nil, nil
    s.check = math.max(H.least, floor(s.n / 50))
  end

  local function continue_count(ranked, s, limit)
    local deltas = {}
    load_whole(s.next)
    while s.cursor < SPACE and limit > 0 do
      local id, past = bucket_at(s, s.cursor)
      local forms = call('HVALS', ranked.b .. text(id))
      for i = 1, #forms do
        local own = segment_of(s.next, scored and tonumber(forms[i]) or forms[i])
        deltas[own] = (deltas[own] or 0) + 1
      end
      limit = limit - #forms - 2
      s.cursor = past
    end
    add_counts(s.next, deltas)
    if s.cursor >= SPACE then finish_grid(ranked, s) end
    return limit
  end

  -- Whether a segment in use has become wider than it may be.
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

  -- Returns whether there is work for `head.advance`. Cheap: it looks at widths only after every so
  -- many changes.
  function head.begin_due_work(ranked, s)
    if H.is_gone and (s.phase or s.grid and not s.floor) then
      unlink_grids(ranked, s)
      s.dirty = true
    end
    if s.moving or s.junk or s.refill or s.phase then return true end
    if not s.floor then return false end
    if head.certain(ranked) < H.refill then
      s.refill, s.raised = 0, nil
      return true
    end
    if not s.grid then
      begin_grid(ranked, s)
      return true
    end
    if s.changes >= s.check then
      s.check, s.dirty = s.changes + math.max(H.least, floor(s.n / 50)), true
      if is_outgrown(ranked, s) then begin_grid(ranked, s) end
    end
    return s.phase ~= nil
  end

  -- Does about `limit` members of the work that is due; returns about how many members are left.
  function head.advance(ranked, limit)
    local s = head.state(ranked)
    local begun, left = call('EXISTS', ranked.g) == 1, 0
    if begun then trim(ranked, s) end
    while limit > 0 and head.begin_due_work(ranked, s) do
      begun = true
      if s.moving then
        limit = limit - move(ranked, s, limit)
      elseif s.junk then
        limit = limit - 1 - remove_junk(ranked, s, limit) / 2
      elseif s.refill then
        limit = refill(ranked, s, limit)
      elseif s.phase == 'sample' then
        limit = continue_sample(ranked, s, limit)
      elseif s.phase == 'edges' then
        limit = continue_edges(ranked, s, limit) - 1
      else
        limit = continue_count(ranked, s, limit) - 50
      end
    end
    if head.begin_due_work(ranked, s) then begun, left = true, s.n end
    if left == 0 then call('SREM', P .. 'gd', ranked.name) end
    if begun or s.dirty then save(ranked) end
    return left
  end

  -- Whole rankings

  -- Returns members of the buckets from a cursor on, about `limit` of them, their words by column, and the
  -- next cursor: 0 at the end.
  function head.walk(ranked, cursor, limit)
    local s, members, w = head.state(ranked), {}, {}
    for i = 1, words do w[i] = {} end
    while cursor < SPACE and #members < limit do
      local id, past = bucket_at(s, cursor)
      local found = call('HGETALL', ranked.b .. text(id))
      for i = 1, #found, 2 do
        members[#members + 1] = found[i]
        decode_form(scored and tonumber(found[i + 1]) or found[i + 1], w, #members, words)
      end
      cursor = past
    end
    return members, w, text(cursor < SPACE and cursor or 0)
  end

  -- Removes a share of a ranking's buckets, then all else; returns whether nothing is left.
  function head.unlink(ranked)
    local s = head.state(ranked)
    local cursor, keys = tonumber(call('HGET', ranked.g, 'gone') or '0'), {}
    while cursor < SPACE and #keys < BUCKETS_MOST do
      local id, past = bucket_at(s, cursor)
      keys[#keys + 1], cursor = ranked.b .. text(id), past
    end
    if #keys > 0 then call('UNLINK', unpack(keys)) end
    if cursor < SPACE then
      call('HSET', ranked.g, 'gone', text(cursor))
      return false
    end
    unlink_grids(ranked, s)
    call('UNLINK', ranked.g)
    call('SREM', P .. 'gd', ranked.name)
    return true
  end

  -- Applies a changed definition of the board; the passes do what follows from it in its rankings.
  function head.change(all)
    head.use(call('HGET', KEYS[1], 'heads'))
    if B.head then call('HSET', KEYS[1], 'heads', cmsgpack.pack(B.head)) end
    for _, ranked in ipairs(head.sizes and all or {}) do
      local has_state = call('EXISTS', P .. 'g:' .. ranked.name) == 1
      if B.head and not has_state and call('EXISTS', ranked.r) == 1 then
        local s = head.state(ranked)
        begin_state(s)
        s.moving, has_state = ':0', true
        save(ranked)
      end
      if has_state then call('SADD', P .. 'gd', ranked.name) end
    end
  end

  -- Expiry

  -- Sets when a new key of a ranking expires.
  function head.expire_key(ranked, key)
    local at = B.lives and expiry_of(ranked.window, ranked.instance)
    A.now = A.now or tonumber(call('HGET', KEYS[1], 'now') or '0')
    if at and at > floor(A.now / 1000) and call('TTL', key) == -1 then
      call('EXPIREAT', key, text(at))
    end
  end

  -- Sets anew when the keys of a ranking expire, for a share of its buckets; returns whether that is done.
  -- The state is set last.
  function head.expire(ranked, lives)
    local s, at = head.state(ranked), expiry_of(ranked.window, ranked.instance, lives)
    if not at or not differs(call('TTL', ranked.g), at) then return true end
    local stored = call('HGET', ranked.g, 'expiring') or ''
    local own, cursor = string.match(stored, '^(%d+):(%d+)$')
    cursor = own == text(at) and tonumber(cursor) or 0
    for _ = 1, BUCKETS_MOST do
      if cursor < SPACE then
        local id, past = bucket_at(s, cursor)
        call('EXPIREAT', ranked.b .. text(id), text(at))
        cursor = past
      end
    end
    if cursor < SPACE then
      call('HSET', ranked.g, 'expiring', text(at) .. ':' .. text(cursor))
      return false
    end
    call('HDEL', ranked.g, 'expiring')
    local name = ranked.name
    for _, key in ipairs({ranked.r, P .. 'ge:' .. name, P .. 'gc:' .. name, P .. 'ne:' .. name,
                          P .. 'nc:' .. name, ranked.g}) do
      call('EXPIREAT', key, text(at))
    end
    return true
  end
end
