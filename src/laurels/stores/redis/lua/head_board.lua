-- Operations on whole rankings with a head, and on a board that gets one or loses it; see head.lua.
do
  local BUCKETS_MOST = 1000  -- the maximum number of buckets that one call removes, or lets expire
  local SPACE, bucket_at, unlink_grids, save = head.SPACE, head.bucket_at, head.unlink_grids, head.save
  local begin_state = head.begin_state

  -- Removes a share of a ranking's buckets; after the last bucket, removes the rest of the ranking.
  -- Returns whether nothing is left.
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

  -- Lets passes extend a head to at least `wanted` entries, as far as there are so many members.
  function head.extend(ranked, wanted)
    local s = head.state(ranked)
    if s.wanted >= wanted then return end
    s.wanted = wanted
    save(ranked)
    call('SADD', P .. 'gd', ranked.name)
  end

  -- Prepares the layout for a changed definition of the board. Passes change the rankings later.
  function head.change(all)
    head.use(call('HGET', KEYS[1], 'heads'))
    if B.head then call('HSET', KEYS[1], 'heads', cmsgpack.pack(B.head)) end
    for _, ranked in ipairs(head.sizes and all or {}) do
      local has_state = call('EXISTS', P .. 'g:' .. ranked.name) == 1
      if B.head and not has_state and call('EXISTS', ranked.r) == 1 then
        local s = head.state(ranked)
        begin_state(s)
        s.moving, s.hides, has_state = ':0', false, true
        save(ranked)
      elseif has_state then
        local s = head.state(ranked)
        if s.hides ~= (B.hide_zero or false) then
          head.apply_hiding(s, ranked)
          save(ranked)
        end
      end
      if has_state then call('SADD', P .. 'gd', ranked.name) end
    end
  end

  -- Renews the expiry of a ranking's keys, for a share of its buckets. Returns whether all are
  -- renewed. The key of the state does not tell whether the buckets are renewed, since every write
  -- of the state renews the expiry of that key.
  function head.expire(ranked, lives)
    local s, at = head.state(ranked), expiry_of(ranked.window, ranked.instance, lives)
    if not at then return true end
    local stored = call('HGET', ranked.g, 'expiring')
    if not stored then
      local is_due = false
      for _, key in ipairs({ranked.b .. text(bucket_at(s, 0)), ranked.r, ranked.g}) do
        is_due = is_due or differs(call('TTL', key), at)
      end
      if not is_due then return true end
    end
    local own, cursor = string.match(stored or '', '^(%d+):(%d+)$')
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
                          P .. 'nc:' .. name, P .. 'ho:' .. name, ranked.g}) do
      call('EXPIREAT', key, text(at))
    end
    return true
  end
end
