-- Passes over a ranking with a head: refills, moves from another layout, grids; see head.lua.
do
  local SPACE, digest_of, bucket_at = head.SPACE, head.digest_of, head.bucket_at
  local is_before, unlink_grids, save = head.is_before, head.unlink_grids, head.save
  local divide, remove_junk, cancel_refill = head.divide, head.remove_junk, head.cancel_refill
  local trim, process_id, begin_grid = head.trim, head.process_id, head.begin_grid
  local paced = head.paced
  local continue_sample, continue_edges = head.continue_sample, head.continue_edges
  local continue_count, is_outgrown = head.continue_count, head.is_outgrown
  local is_zero, without_zeros = head.is_zero, head.without_zeros
  local count_before, key_of_zeros, key_before = head.count_before, head.key_of_zeros, head.key_before

  -- Continues the refill by about `limit` members. Returns how much of the limit is left.
  local function refill(ranked, s, limit)
    while s.refill and s.refill < SPACE and limit > 0 do
      local id, past = bucket_at(s, s.refill)
      local bucket, members = without_zeros(s, call('HGETALL', ranked.b .. text(id)))
      local adds = {}
      for i = 1, #bucket, 2 do
        local member, form = bucket[i], bucket[i + 1]
        if scored then form = tonumber(form) end
        if not is_before(form, member, s.floor) and is_before(form, member, s.raised) then
          local n = #adds
          adds[n + 1] = scored and text(form) or '0'
          adds[n + 2] = entry_of(ranked, form, member)
        end
      end
      send('ZADD', ranked.r, adds)
      s.refill = past
      if #adds > 0 then trim(ranked, s) end
      limit = paced(limit - members - #adds - 4)
    end
    if s.refill and s.refill >= SPACE then
      s.floor = s.raised
      cancel_refill(s)
    end
    s.certain = nil
    return limit
  end

  local MOVED = 32  -- about how many members are moved at once, as many as a bucket has

  -- Moves about `limit` members from the layout without a head, in which they are in the sorted set
  -- or in a hash, into buckets. Returns how many. A cursor is valid only in the server process that
  -- returned it. Events that are counted meanwhile write to the buckets. The move is complete when
  -- the buckets have as many members as the sorted set.
  local function move(ranked, s, limit)
    local process, cursor = string.match(s.moving, '^(%x*):(%d+)$')
    local own, gone = process_id(), {}
    local from = scored and ranked.r or ranked.k
    local reply = call(scored and 'ZSCAN' or 'HSCAN', from, process == own and cursor or '0', 'COUNT',
                       text(math.ceil(limit)))
    for i = 1, #reply[2], 2 do
      local member, form = reply[2][i], reply[2][i + 1]
      local key = ranked.b .. text((bucket_at(s, digest_of(s, member))))
      if call('HSETNX', key, member, scored and text(tonumber(form)) or form) == 1 then
        s.n = s.n + 1
        if is_zero(scored and tonumber(form) or form) then s.zeros = s.zeros + 1 end
        head.expire_key(ranked, key)
      end
      gone[#gone + 1] = member
    end
    if not scored then send('HDEL', ranked.k, gone) end
    while s.n > s.buckets * head.sizes.capacity do divide(ranked, s) end
    s.moving = own .. ':' .. reply[1]
    if reply[1] == '0' and s.n == call('ZCARD', ranked.r) then
      s.moving = nil
      if ranked.k then call('UNLINK', ranked.k) end
      head.apply_hiding(s, ranked)
    end
    return #gone + 2
  end

  -- Zeros

  -- Hides the zeros of a ranking or shows them, as the definition of the board says. Passes do the rest: they
  -- remove zeros from the head, or fill up the head from where the zeros begin, and make a grid.
  function head.apply_hiding(s, ranked)
    if s.moving or s.hides == (B.hide_zero or false) then return end
    local is_clear = s.zeros == 0 and not s.leaving
    s.hides, s.leaving, s.certain = not s.hides, false, nil
    if is_clear then return end
    unlink_grids(ranked, s)
    s.leaving = s.hides
    local first = key_of_zeros()
    local is_short = key_before(first, s.floor)
    if not s.hides and (s.refill or is_short) then
      if is_short then s.floor = first end
      cancel_refill(s)
      s.junk = true
    end
  end

  -- Removes up to `limit` hidden zeros from the head. Returns how many.
  local function remove_zeros(ranked, s, limit)
    local first = count_before(ranked, key_of_zeros())
    local past
    if scored then
      past = call('ZCOUNT', ranked.r, '-inf', '(' .. text(head.past_zeros))
    else
      past = call('ZLEXCOUNT', ranked.r, '-', '(' .. after_prefix(string.rep(encode_word(0), columns)))
    end
    local now = math.min(past - first, math.ceil(limit))
    if now > 0 then call('ZREMRANGEBYRANK', ranked.r, text(first), text(first + now - 1)) end
    s.leaving, s.certain = first + now < past, nil
    return now
  end

  -- Begins a pass if one is due. Returns whether there is work for `head.advance`. The check is
  -- cheap, since segments are measured only after a certain number of changes.
  function head.begin_due_work(ranked, s)
    local sizes = head.sizes
    if sizes.is_gone and (s.phase or s.grid and not s.floor) then
      unlink_grids(ranked, s)
      s.dirty = true
    end
    if s.moving or s.leaving or s.junk or s.refill or s.phase then return true end
    if not s.floor then return false end
    if head.certain(ranked) < math.max(sizes.refill, s.wanted) then
      s.refill, s.raised = 0, nil
      return true
    end
    if not s.grid then
      begin_grid(ranked, s)
      return true
    end
    if s.changes >= s.check then
      s.check, s.dirty = s.changes + math.max(sizes.least, floor(s.n / 50)), true
      if is_outgrown(ranked, s) then begin_grid(ranked, s) end
    end
    return s.phase ~= nil
  end

  -- Does the due work for about `limit` members, or for fewer if the processor time of this call is used up.
  -- Returns about how many members are left.
  function head.advance(ranked, limit)
    local s = head.state(ranked)
    local begun, left = call('EXISTS', ranked.g) == 1, 0
    if begun then trim(ranked, s) end
    head.begin_pacing()
    while limit > 0 and head.begin_due_work(ranked, s) do
      begun = true
      if s.moving then
        limit = paced(limit - move(ranked, s, math.min(limit, MOVED)))
      elseif s.leaving then
        limit = limit - 1 - remove_zeros(ranked, s, limit) / 2
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
end
