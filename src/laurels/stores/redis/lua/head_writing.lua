-- Writes to rankings with a head: to buckets, the head, the floor and the counts of segments; see
-- head.lua.
do
  local sha1hex, format = redis.sha1hex, string.format
  local SPACE, FIELDS, encode_key = head.SPACE, head.FIELDS, head.encode_key
  local measure_buckets, digest_of, bucket_of = head.measure_buckets, head.digest_of, head.bucket_of
  local is_before, key_before, key_at = head.is_before, head.key_before, head.key_at
  local count_before, load_whole, segment_of = head.count_before, head.load_whole, head.segment_of
  local add_counts, unlink_grids, is_zero = head.add_counts, head.unlink_grids, head.is_zero

  -- Writes the state. Fields that are not set are removed.
  local function save(ranked)
    local s = ranked.state
    local values = {
      text(s.n), text(s.buckets), s.salt or '', encode_key(s.floor), s.refill and text(s.refill) or '',
      encode_key(s.raised), s.junk and '1' or '', s.grid and text(s.grid.m) or '', text(s.changes),
      text(s.check), s.phase or '', s.phase and text(s.cursor) or '', s.build or '',
      s.next and text(s.next.m) or '', s.moving or '', s.zeros > 0 and text(s.zeros) or '',
      s.hides and '1' or '', s.leaving and '1' or '', s.wanted > 0 and text(s.wanted) or '',
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

  -- Divides the next bucket into two.
  local function divide(ranked, s)
    local id = s.level + s.split
    local from, first, second = ranked.b .. text(id), ranked.b .. text(2 * id), ranked.b .. text(2 * id + 1)
    local middle = (2 * s.split + 1) * (SPACE / (2 * s.level))
    local bucket, moved, gone = call('HGETALL', from), {}, {}
    for i = 1, #bucket, 2 do
      local digest = tonumber(sub(sha1hex(s.salt .. bucket[i]), 1, 8), 16)
      if digest >= middle then
        moved[#moved + 1], moved[#moved + 2], gone[#gone + 1] = bucket[i], bucket[i + 1], bucket[i]
      end
    end
    if #bucket > 0 then call('RENAME', from, first) end
    send('HDEL', first, gone)
    send('HSET', second, moved)
    if #moved > 0 then head.expire_key(ranked, second) end
    s.buckets = s.buckets + 1
    measure_buckets(s)
  end

  -- Trimming

  -- Removes up to `limit` entries after the floor from the end of the head.
  local function remove_junk(ranked, s, limit)
    local excess = call('ZCARD', ranked.r) - count_before(ranked, s.floor)
    local now = math.min(excess, math.ceil(limit))
    if now > 0 then call('ZREMRANGEBYRANK', ranked.r, text(-now), '-1') end
    s.junk = excess > now
    return now
  end

  local function cancel_refill(s) s.refill, s.raised = nil, nil end

  -- Raises the floor if the head has too many entries.
  local function trim(ranked, s)
    local sizes = head.sizes
    local entries, keep = call('ZCARD', ranked.r), math.max(sizes.keep, s.wanted)
    if s.junk or s.moving or entries <= keep + sizes.chunk then return end
    local cut = key_at(ranked, keep)
    if not s.refill or key_before(cut, s.floor) then
      s.floor = cut
      cancel_refill(s)
    else
      s.raised = cut
    end
    s.certain = nil
    local excess = entries - keep
    local now = s.refill and excess or math.min(excess, sizes.chunk + sizes.trims)
    call('ZREMRANGEBYRANK', ranked.r, text(-now), '-1')
    s.junk = excess > now
  end

  -- Members

  -- Returns the id of the server process.
  local function process_id() return string.match(call('INFO', 'server'), 'run_id:(%x+)') end

  -- Pacing of passes

  local BUCKETS = 4  -- after so many buckets the time is read, which takes as long as some 5 members
  local visited, ends_ms = 0, math.huge

  -- Returns the processor time of the server so far, in milliseconds: that of the main thread or, on
  -- servers that do not tell it, of all threads.
  local function processor_ms()
    local info, seconds = call('INFO', 'cpu'), 0
    for _, mode in ipairs({'user', 'sys'}) do
      local field = 'used_cpu_' .. mode
      local own = string.match(info, field .. '_main_thread:([%d.]+)') or string.match(info, field .. ':([%d.]+)')
      seconds = seconds + tonumber(own or '0')
    end
    return 1000 * seconds
  end

  -- Lets the passes of this call end after `sizes.call_ms` of processor time.
  function head.begin_pacing()
    local most = head.sizes.call_ms  -- nothing if a release without this size has stored the sizes
    if most and ends_ms == math.huge then ends_ms = processor_ms() + most end
  end

  -- Returns, after another bucket was visited, how much is left of the limit of a pass: `limit`, or 0
  -- when the processor time is used up.
  function head.paced(limit)
    visited = visited + 1
    if visited % BUCKETS ~= 0 or limit <= 0 or ends_ms == math.huge then return limit end
    return processor_ms() > ends_ms and 0 or limit
  end

  local function begin_state(s)
    if s.salt then return end
    s.salt, s.is_new = sub(sha1hex(process_id() .. KEYS[1]), 1, 8), true
    s.hides = B.hide_zero
  end

  -- Adds to `deltas` that a member leaves the segment of its old form and enters the segment of its
  -- new form.
  local function count_move(grid, deltas, old, new)
    local from = old and segment_of(grid, old) or nil
    local to = new and segment_of(grid, new, from)
    if from == to then return end
    if from then deltas[from] = (deltas[from] or 0) - 1 end
    if to then deltas[to] = (deltas[to] or 0) + 1 end
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
        local key = bucket_of(ranked, s, member)
        local was_zero, is_now_zero = old and is_zero(old), new and is_zero(new)
        if was_zero and not s.outside[member] then s.zeros = s.zeros - 1 end
        if is_now_zero then s.zeros = s.zeros + 1 end
        if new then
          call('HSET', key, member, scored and format('%d', new) or new)
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
        if s.hides and was_zero then old = false end
        if s.hides and is_now_zero then new = false end
        local bound = s.floor
        if s.refill and digest_of(s, member) < s.refill then bound = s.raised end
        local was, is = old and (s.junk or is_before(old, member, bound)), new and is_before(new, member, bound)
        if scored then
          if is then
            adds[added + 1], adds[added + 2], added = format('%d', new), member, added + 2
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
        if grid then count_move(grid, deltas, old, new) end
        if next_grid and digest_of(s, member) < s.cursor then count_move(next_grid, next_deltas, old, new) end
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
    while divisions > 0 and s.n > s.buckets * head.sizes.capacity do
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

  -- Sets the expiry of a new key of a ranking.
  function head.expire_key(ranked, key)
    local at = B.lives and expiry_of(ranked.window, ranked.instance)
    A.now = A.now or tonumber(call('HGET', KEYS[1], 'now') or '0')
    if at and at > floor(A.now / 1000) and (at ~= gone and gone or call('TTL', key) == -1) then
      call('EXPIREAT', key, text(at))
    end
  end

  head.save = save
  head.divide = divide
  head.remove_junk = remove_junk
  head.cancel_refill = cancel_refill
  head.trim = trim
  head.process_id = process_id
  head.begin_state = begin_state
end
