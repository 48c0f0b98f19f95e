-- The entries of hidden members: for each ranking that is read without them, a sorted set of their entries.
-- With it a reader finds how many hidden members precede a position by a binary search (hidden.lua), and
-- hidden members without an entry in the ranking cost nothing.
--
--   P m listed       <serial>:<floor>:<version>. <version> is the version of the hidden members that P hm
--                    has; <serial> is the number of times P hm has changed
--   P hm             set: the hidden members of this shard
--   P hc             sorted set: the members that were last added to P hm or removed from it, by the serial
--                    of that change. It has all changes after <floor>
--   P hr             hash: ranking -> the serial up to which P ho of this ranking follows P hm
--   P ho:<ranking>   sorted set: the entries of hidden members, the same as in P r:<ranking>. On a board with a
--                    head it also has the entries of hidden members below the floor
--   P hl:<version>   set: the part of a list that the shard has received so far; it expires after a minute
--
-- Invariant (`check` in audit.lua verifies it): if P hr has a ranking, each entry in its P ho is the current
-- entry of a member, and P ho has an entry for every ranked member that P hm had at that serial and still
-- has. `keep` preserves it; every write of an entry calls it. Only `update` adds a ranking to P hr: it makes
-- P ho anew, or applies the changes in P hc since the serial. So a change of the hidden members costs
-- nothing until a ranking is read, and a ranking that was removed or renamed is only forgotten.
--
-- Op of `operate`:
--   list_hidden (version, change or nil, part or nil, names)  lets P hm have the members of this version, and updates
--     rankings. `change` is {version, added, removed}: the difference to an earlier version. `part` is
--     {members, total}: a part of all members, and their number. Without both, or if P hm has another
--     version than that of `change`, or until all parts are there, P hm stays as it is. Returns whether
--     P hm has this version, and how many rankings are done, in the order of `names`
do
  local CHANGES_MOST = 1000   -- the maximum number of changes in P hc
  local PART_SECONDS = 60     -- the lifetime of a list that is not complete
  local list                  -- P m listed; nil if it was not read yet, false if there is none

  -- Returns the list of the shard: {serial, floor, version}, false if there is none.
  local function current_list()
    if list ~= nil then return list end
    local stored = hidden_entries.stored
    if stored == nil then stored = call('HGET', KEYS[1], 'listed') end
    if not stored then
      list = false
    else
      local serial, lowest, version = string.match(stored, '^(%d+):(%d+):(.*)$')
      list = {serial = tonumber(serial), floor = tonumber(lowest), version = version}
    end
    return list
  end

  local function key_of(ranked) return P .. 'ho:' .. ranked.name end

  -- Lets the entries of hidden members expire with their ranking.
  local function expire_with(ranked)
    if not B.lives then return end
    local ttl = call('PTTL', ranked.r)
    if ttl > 0 then call('PEXPIRE', key_of(ranked), text(ttl)) end
  end

  -- Replaces entries of members whose forms are replaced; see `replace_forms`. In the scored layouts an
  -- old form may be missing.
  function hidden_entries.keep(ranked, names, olds, news)
    if not current_list() or not call('HGET', P .. 'hr', ranked.name) then return end
    local changed, places, drops, adds = {}, {}, {}, {}
    for i = 1, #names do
      if olds[i] ~= news[i] then changed[#changed + 1], places[#places + 1] = names[i], i end
    end
    local hidden = fetch('SMISMEMBER', P .. 'hm', changed)
    for k, i in ipairs(places) do
      local member, old, new = names[i], olds[i], news[i]
      local was = old and entry_of(ranked, old, member)
      local is = new and entry_of(ranked, new, member)
      local stays = is and hidden[k] == 1
      if scored then
        if not stays then drops[#drops + 1] = member end
      elseif was and was ~= is then
        drops[#drops + 1] = was
      end
      if stays then adds[#adds + 1], adds[#adds + 2] = scored and new or 0, is end
    end
    local key = key_of(ranked)
    send('ZADD', key, adds)  -- first, since it fails if the server has no memory left
    send('ZREM', key, drops)
    if #adds > 0 then expire_with(ranked) end
  end

  -- Forgets the entries for a ranking: the next reader makes them anew.
  function hidden_entries.forget(ranked)
    if not current_list() then return end
    call('UNLINK', key_of(ranked))
    call('HDEL', P .. 'hr', ranked.name)
  end

  -- Forgets a member that was removed from all rankings.
  function hidden_entries.forget_member(member)
    call('SREM', P .. 'hm', member)
    call('ZREM', P .. 'hc', member)
  end

  -- Removes the list. It must not have a ranking any more.
  function hidden_entries.unlink()
    call('UNLINK', P .. 'hm', P .. 'hc', P .. 'hr')
    call('HDEL', KEYS[1], 'listed')
    list = false
  end

  -- Returns the key of the entries of hidden members of a ranking, nil if they do not have the version.
  function hidden_entries.find(ranked, version)
    local own = current_list()
    if not own or own.version ~= version then return nil end
    local serial = call('HGET', P .. 'hr', ranked.name)
    return serial and tonumber(serial) == own.serial and key_of(ranked) or nil
  end

  -- Returns whether the list of the shard has a version.
  function hidden_entries.has_version(version)
    local own = current_list()
    return own and own.version == version
  end

  local function add_entries(ranked, members)
    local forms, adds = forms_of(ranked, members), {}
    for i, member in ipairs(members) do
      local form = forms[i]
      if form then adds[#adds + 1], adds[#adds + 2] = scored and form or 0, entry_of(ranked, form, member) end
    end
    send('ZADD', key_of(ranked), adds)
  end

  -- Makes the entries of hidden members of a ranking: O(min(members of the ranking, hidden members)).
  -- Returns how many members it read.
  local function make(ranked)
    local count, size = call('SCARD', P .. 'hm'), call('ZCARD', ranked.r)
    call('UNLINK', key_of(ranked))
    if has_head(ranked) or count <= size then
      add_entries(ranked, call('SMEMBERS', P .. 'hm'))
      return count
    end
    for first = 0, size - 1, CHUNK do
      local entries, members, some = call('ZRANGE', ranked.r, text(first), text(first + CHUNK - 1)), {}, {}
      for i, entry in ipairs(entries) do members[i] = scored and entry or sub(entry, 8 * ranked.width + 1) end
      for i, is_hidden in ipairs(fetch('SMISMEMBER', P .. 'hm', members)) do
        if is_hidden == 1 then some[#some + 1] = members[i] end
      end
      add_entries(ranked, some)
    end
    return size
  end

  -- Applies the changes of the hidden members since a serial. Returns how many there were.
  local function apply_changes(ranked, serial)
    local members, added, drops = call('ZRANGEBYSCORE', P .. 'hc', '(' .. text(serial), '+inf'), {}, {}
    local hidden, forms = fetch('SMISMEMBER', P .. 'hm', members), forms_of(ranked, members)
    for i, member in ipairs(members) do
      if hidden[i] == 1 then
        added[#added + 1] = member
      elseif scored or forms[i] then
        drops[#drops + 1] = scored and member or entry_of(ranked, forms[i], member)
      end
    end
    send('ZREM', key_of(ranked), drops)
    add_entries(ranked, added)
    return #members
  end

  -- Lets the entries of hidden members of a ranking follow P hm. Returns how many members it read.
  function hidden_entries.update(ranked)
    local serial = tonumber(call('HGET', P .. 'hr', ranked.name) or nil)
    local read = serial and serial >= list.floor and apply_changes(ranked, serial) or make(ranked)
    expire_with(ranked)
    call('HSET', P .. 'hr', ranked.name, text(list.serial))
    return read
  end

  -- Lets the entries of hidden members of a ranking follow P hm if they are kept. Returns whether they are.
  function hidden_entries.catch_up(ranked)
    if not current_list() or call('HEXISTS', P .. 'hr', ranked.name) == 0 then return false end
    hidden_entries.update(ranked)
    return true
  end

  -- Stores which members were added to P hm or removed from it, and the version that it has now.
  local function note_changes(version, ...)
    local serial, changes = (current_list() or {serial = 0}).serial + 1, {}
    for _, members in ipairs({...}) do
      for _, member in ipairs(members) do changes[#changes + 1], changes[#changes + 2] = serial, member end
    end
    send('ZADD', P .. 'hc', changes)
    local lowest, excess = list and list.floor or 0, call('ZCARD', P .. 'hc') - CHANGES_MOST
    if excess > 0 then
      local last = text(excess - 1)
      lowest = tonumber(call('ZRANGE', P .. 'hc', last, last, 'WITHSCORES')[2])
      call('ZREMRANGEBYRANK', P .. 'hc', '0', last)
    end
    list = {serial = serial, floor = lowest, version = version}
    call('HSET', KEYS[1], 'listed', text(serial) .. ':' .. text(lowest) .. ':' .. version)
  end

  -- Adds a part of a list to those that the shard has received. Returns whether all parts are there.
  local function receive(version, members, total)
    local key = P .. 'hl:' .. version
    send('SADD', key, members)
    if call('SCARD', key) < total then
      call('EXPIRE', key, text(PART_SECONDS))
      return false
    end
    local added, removed = call('SDIFF', key, P .. 'hm'), call('SDIFF', P .. 'hm', key)
    call('RENAME', key, P .. 'hm')
    call('PERSIST', P .. 'hm')
    note_changes(version, added, removed)
    return true
  end

  -- Lets P hm have the members of a version; see list_hidden. Returns whether it has them.
  function hidden_entries.put_list(version, change, part)
    local own = current_list()
    if own and own.version == version then return true end
    if change and own and own.version == change[1] then
      local removed = {}
      for i, is_there in ipairs(fetch('SMISMEMBER', P .. 'hm', change[3])) do
        if is_there == 1 then removed[#removed + 1] = change[3][i] end
      end
      send('SADD', P .. 'hm', change[2])
      send('SREM', P .. 'hm', removed)
      note_changes(version, change[2], removed)
      return true
    end
    return part and receive(version, part[1], part[2])
  end
end
