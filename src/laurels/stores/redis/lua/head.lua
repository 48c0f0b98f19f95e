-- The layout of the rankings of a board with a head: the best members are in order in a sorted set, all
-- members are in hashes, and a table counts the members by ranges of scores.
--
-- Terms:
--   head     the members with an entry in the sorted set; their positions are exact
--   floor    a place in the order, as a form and a member: the members that precede it are the head
--   bucket   a hash of members with their forms, small enough to be stored compactly
--   grid     an ascending list of scores, the edges, and the number of members between two of them
--   segment  the members from one edge to the next one
--   zero     a member whose score is 0 in all columns
--   trim     removes the last entries of a head that has grown, and sets the floor to the first of them
--   refill   adds entries to a head that has shrunk
--
-- Keys of a ranking <r>, besides P r:<r>, the sorted set of the head:
--   P b:<r>:<id>   a bucket: member -> form
--   P g:<r>        hash: the state, see FIELDS
--   P ge:<r>       the edges of the grid: first every 64th edge, then all, each as `size` doubles
--   P gc:<r>       the counts of members: by segment, then by 64 segments in a row, 4 bytes each
--   P ne:<r>, nc:  the edges and the counts of the grid that is being made
--   P gs:<r>:<l>   sorted set: the best members in every 2^l-th bucket, while a grid is being made
--
-- Invariants (`check` in audit.lua verifies them):
--   1. Each member is in exactly one bucket, which its digest determines.
--   2. The head has exactly the members that precede the floor; without a floor it has all members.
--      There are two exceptions. During a refill, the head has those of the visited members that precede
--      `raised`, which becomes the floor at the end. While `junk` is set, the head may have more entries
--      after the floor, which are still to be removed.
--   3. If zeros are hidden, they are only in buckets, and neither in the head nor counted by segments. While
--      `leaving` is set, the head may have zeros that are still to be removed.
--   4. The count of a segment is the number of members whose score is at least the edge before it and
--      less than the edge after it. In a grid that is still being counted, it is the number of those
--      that the pass has visited.
-- So the positions of the entries before the floor are exact. The position of any other member is at
-- least n, the sum of the counts of all segments before its own, and less than n plus the count of its
-- own segment.
--
-- The digest of a member is a number below 2^32. The buckets divide these numbers into intervals, by
-- linear hashing on the leading bits: with 2^L + p buckets, each of the first p of 2^L equal intervals is
-- divided in two. Bucket `id` is divided into the buckets 2 id and 2 id + 1. A pass visits the buckets in
-- the order of their intervals, and its cursor is the end of the last interval. So a member has been
-- visited exactly if its digest is less than the cursor, even if buckets were divided meanwhile. No member
-- is visited twice or left out, and a pass may stop anywhere and be continued by any process.
--
-- Scores are compared by their columns only, as numbers (see `score_words`). If many members have the same
-- score, the grid has an edge at this score and another one immediately after it, so that these members
-- have a segment of their own.
--
-- This file reads the state and the head. head_grid.lua counts by segments, head_writing.lua changes
-- rankings, head_new_grid.lua makes a grid, head_passes.lua decides which pass is due and continues it,
-- and head_board.lua has the operations on a whole ranking or board.
do
  local SPACE = 4294967296
  local sha1hex, format = redis.sha1hex, string.format

  head.sizes = B.head or nil
  if head.sizes and A.hides then  -- hidden members take no place in the head
    head.sizes.keep, head.sizes.refill = head.sizes.keep + A.hides, head.sizes.refill + A.hides
  end

  -- On a board that had a head before, uses the stored sizes, but without a limit on the size of
  -- the head.
  function head.use(stored)
    if B.head or not stored then return end
    local sizes = cmsgpack.unpack(stored)
    sizes.k, sizes.keep, sizes.refill, sizes.is_gone = math.huge, math.huge, math.huge, true
    head.sizes = sizes
  end

  -- State

  local FIELDS = {'n', 'buckets', 'salt', 'floor', 'refill', 'raised', 'junk', 'edges', 'changes',
                  'check', 'phase', 'cursor', 'build', 'counted', 'moving', 'zeros', 'hides', 'leaving',
                  'wanted'}
  -- n         number of members                  edges    number of edges of the grid, absent without one
  -- buckets   number of buckets                  changes  number of changes since the edges were chosen
  -- salt      put before members in digests      check    number of changes at which segments are measured
  -- floor     see invariant 2                    phase    of the grid being made: sample, edges or count
  -- refill    cursor of the refill               cursor   of that phase
  -- raised    the floor after the refill         build    see `begin_grid`
  -- junk      see invariant 2                    counted  number of edges of that grid
  -- moving    where members are moved from the layout without a head into buckets, see `move`
  -- zeros     number of zeros in the buckets     hides    whether zeros are hidden
  -- leaving   see invariant 3                    wanted   the least number of entries of the head of a period that
  --                                                       is being sealed

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
    s.keys = {}
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
      phase = f[11] or nil, cursor = tonumber(f[12] or '0'), build = f[13] or nil, hashes = {}, keys = {},
      moving = f[15] or nil, outside = {}, zeros = tonumber(f[16] or '0'), hides = f[17] == '1',
      leaving = f[18] == '1', wanted = tonumber(f[19] or '0'),
    }
    if f[8] then s.grid = {e = P .. 'ge:' .. name, c = P .. 'gc:' .. name, m = tonumber(f[8])} end
    if f[14] then s.next = {e = P .. 'ne:' .. name, c = P .. 'nc:' .. name, m = tonumber(f[14])} end
    measure_buckets(s)
    ranked.state = s
    return s
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

  -- Returns the bucket whose interval contains a digest, and the end of the interval.
  local function bucket_at(s, digest)
    local parts = s.level
    local t = floor(digest / (SPACE / parts))
    if t < s.split then
      parts = 2 * parts
      t = floor(digest / (SPACE / parts))
    end
    return parts + t, (t + 1) * (SPACE / parts)
  end

  -- Returns the key of the bucket of a member.
  local function bucket_of(ranked, s, member)
    local key = s.keys[member]
    if not key then
      key = ranked.b .. format('%d', (bucket_at(s, digest_of(s, member))))
      s.keys[member] = key
    end
    return key
  end

  function head.forms_of(ranked, names)
    local s, forms = head.state(ranked), {}
    if s.n == 0 and not s.moving then
      for i = 1, #names do forms[i] = false end
      return forms
    end
    for i = 1, #names do
      local name = names[i]
      local form = call('HGET', bucket_of(ranked, s, name), name)
      if s.moving and not form then
        form = scored and call('ZSCORE', ranked.r, name) or not scored and call('HGET', ranked.k, name)
        s.outside[name] = form and true
      end
      forms[i] = form and (scored and tonumber(form) or form)
    end
    return forms
  end

  -- Walks through the members in the order of their digests, from `cursor` on. Returns three values: about `limit`
  -- members, the forms of these members, and the next cursor, 0 at the end. Each member is returned once, even if
  -- buckets are divided meanwhile. Members with equal digests are returned together, even beyond `limit`. Returns
  -- nothing while members are moved into buckets.
  function head.walk(ranked, cursor, limit)
    local s, members, forms = head.state(ranked), {}, {}
    if s.moving then return nil end
    while cursor < SPACE and #members < limit do
      local id, past = bucket_at(s, cursor)
      local bucket, entries = call('HGETALL', ranked.b .. text(id)), {}
      for i = 1, #bucket, 2 do
        local digest = digest_of(s, bucket[i])
        if digest >= cursor then entries[#entries + 1] = {digest, bucket[i], bucket[i + 1]} end
      end
      table.sort(entries, function(one, other) return one[1] < other[1] end)
      cursor = past
      for _, entry in ipairs(entries) do
        if #members >= limit and entry[1] > digest_of(s, members[#members]) then
          cursor = entry[1]
          break
        end
        members[#members + 1] = entry[2]
        forms[#members] = scored and tonumber(entry[3]) or entry[3]
      end
    end
    return members, forms, cursor < SPACE and cursor or 0
  end

  -- Returns the number of members.
  function head.size(ranked)
    local s = head.state(ranked)
    return s.moving and call('ZCARD', ranked.r) or s.n
  end

  -- Returns the number of members that the ranking lists: all, or all except those with a hidden
  -- zero.
  local function listed_members(s) return s.hides and s.n - s.zeros or s.n end

  -- Returns the number of members that are ranked. While members are moved into buckets, the sorted set has all of
  -- them.
  function head.total(ranked)
    local s = head.state(ranked)
    if s.moving then return zeros.before(ranked, call('ZCARD', ranked.r)) end
    return listed_members(s) - (ranked.hidden and zeros.count_hidden(ranked) or 0)
  end

  -- The least form of a zero, and the least form after all zeros. In the prefixed layout, a form of a zero begins
  -- with `zero_form`.
  local zero_form, past_zeros
  if scored then
    zero_form = 0
    for i = 1, columns do zero_form = zero_form - lows[i] * units[i] end
    past_zeros = zero_form + units[columns]
    for i = 1, columns do
      if B.least[i] > 0 or B.most[i] < 0 then past_zeros = zero_form end
    end
  else
    zero_form = string.rep(encode_word(0), columns)
  end

  local function is_zero(form)
    if scored then return form >= zero_form and form < past_zeros end
    if string.byte(form, 8 * columns) ~= 0 then return false end  -- one byte shows this for nearly all other scores
    return sub(form, 1, 8 * columns) == zero_form
  end

  -- A key is an entry of the head, or the floor: {form, member} or {words, member}.

  -- Returns whether a member with a form precedes a key.
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
      local entry = call('ZRANGE', ranked.r, at, at, 'WITHSCORES')
      return {member = entry[1], form = tonumber(entry[2])}
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

  -- Returns how many entries at the beginning of the head have exact positions.
  function head.certain(ranked)
    local s = head.state(ranked)
    if s.certain then return s.certain end
    if not s.floor then return head.total(ranked) end
    local entries = (s.refill or s.junk) and count_before(ranked, s.floor) or call('ZCARD', ranked.r)
    s.certain = zeros.before(ranked, entries)
    return s.certain
  end

  -- Returns the place in the order before all zeros, as a key.
  local function key_of_zeros()
    if scored then return {form = zero_form, member = ''} end
    return decode_key(zero_form .. string.rep(encode_word(-BIAS), width - columns))
  end

  head.SPACE, head.FIELDS = SPACE, FIELDS
  head.encode_key = encode_key
  head.measure_buckets = measure_buckets
  head.digest_of = digest_of
  head.bucket_at = bucket_at
  head.bucket_of = bucket_of
  head.is_before = is_before
  head.key_before = key_before
  head.key_at = key_at
  head.count_before = count_before
  head.is_zero, head.past_zeros = is_zero, past_zeros
  head.key_of_zeros = key_of_zeros
  head.listed_members = listed_members
end
