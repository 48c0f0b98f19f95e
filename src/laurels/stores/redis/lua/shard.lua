-- The common part of all scripts of a shard: layouts, rows of members, rankings, and the checks by
-- which a call is refused.
--
-- KEYS[1] is P..'m'; every key of the shard begins with P and is in the same slot:
--   P m                     hash: ver, the definition version with the unique id of the board; now, the
--                           newest time seen; seq, the number of the last change; since: scopes that were last advanced before
--                           this time are stale, as the board has changed; for a rolling window
--                           run:<w>, its running step, and phase:<w> and place:<w>, how far the pass
--                           has come; for a refreshed one also the fields listed in refresh_state.lua;
--                           heads, the sizes by which a head is laid out (B.head), if the board has or
--                           had one;
--                           in the first shard hid, the version of the hidden members, if the board has or
--                           had any: `<changes of its own>:<changes of those hidden on all boards>`
--   P hh                    in the first shard, hash: hidden member -> its hiding as the caller encoded it
--   P hp                    in the first shard, hash: id -> a change of the hidden members that the shard of
--                           the member still has to record; in the first shard the field hidn of P m is
--                           the newest id, and in every shard hidt is the newest id that this shard
--                           has recorded
--   P i                     set of the existing rankings: <window>:<instance>
--   P r:<window>:<instance> sorted set of a ranking, ascending in the order of standings
--   P k:<window>:<instance> prefixed only, hash: member -> form
--   P d: and n:             dense rank style only: the distinct scores, and how many members have each
--   P t:<window>:<step>     hash: member -> form of its cell, the tally of a step
--   P e:<window>            plain and packed, hash: member -> newest step, of a live rolling window
--   P c:<window>            hash: member -> candidates of best columns, by step, of a live rolling window
--   P q                     sorted set of event ids by the time they were accepted
--   P x, p, s               member data, import positions, stream of changes
--   P a:<process>           the answer to the last call of a process, kept for a minute
--   P o                     sorted set of the scopes with members, by the time each was advanced to
--   P l:<labels>            sorted set of the scopes of these labels, all with score 0
--   P i:<scope>             hash: the existing rankings of a scope, as in P i
--   P h, hx, hs             the changes that the board keeps: see changes.lua
--   P hm, hc, hr, ho:, hl:  the entries of hidden members: see hidden_entries.lua
--   P g, b:, and so on      on a board with a head: see head.lua
--   P f                     stream that feeds the label replica: see feed.lua
--   P w, wq                 what writes change while the board is copied to another store: see tracking.lua
--   P cl                    the closed and sealed periods: see closing.lua
--   P m clearing, cleared, clears, cut, fence   the last clearing of the board: see clearing.lua
-- In a scope the name of a window is `<window>\31<scope>`, and its keys and fields are made from
-- that name. Comments about a window also apply to the window in each scope. For a
-- rolling window <instance> is the parity of the step; for a refreshed window it is the parity of
-- the number of refreshes. So at a boundary, or a refresh, two rankings swap roles without being
-- written.
--
-- A row is the words of a member: columns, tie stamp, exact `at` (the last two only if the board needs
-- them). In a window with decay (B.decays) the total is two words instead of a column. A stored row
-- is called its *form*:
--   plain, packed  one number, the sum of (word - low) * unit over the words; it is the score of
--                  the member in the sorted set, and nothing else is stored
--   prefixed       text, 8 bytes a word, which sorts like the numbers, and for a rolling window the
--                  newest step; the words that decide the order are put before the member in the
--                  sorted set, where all scores are 0
-- Scripts work on rows in memory. A call first reads everything it needs, and writes everything at
-- its end. So no call ends half done, and a member with many events costs as much as a member with
-- a single event.
local call, pack, unpack_word, sub, floor = redis.call, struct.pack, struct.unpack, string.sub, math.floor
local P = sub(KEYS[1], 1, -2)          -- the prefix of all keys of the shard
local A = cmsgpack.unpack(ARGV[1])     -- the argument of this call; A.hid is the version of the hidden members
                                       -- that the caller knows; on a board with a head, A.hides is
                                       -- the number of these members
local B = A.board                      -- the board, see `board_encoding` in index/coding.py
local BIAS, CHUNK = 9007199254740992, 2000
local columns, sums, tie, scored = B.columns, B.sums, B.tie, B.scored
local width = columns + (tie ~= 0 and 1 or 0)
local words = width + (B.stamped and 1 or 0)
local lows, units = B.lows, B.units
local head = {}                        -- the functions of the layout with a head, see head.lua
local zeros = {}                       -- the functions for members whose score is 0, see zeros.lua
local tracking = {}                    -- the functions that track writes, see tracking.lua
local closing = {}                     -- the functions that close periods, see closing.lua
local hidden_entries = {}              -- the functions for entries of hidden members, see hidden_entries.lua

local function text(number) return string.format('%.17g', number) end

-- If a board has a time of removal, every key expires then (`gone`, in seconds), even if no process
-- is left to remove the board. A key gets its expiry when it is created.
local gone = A.gone or B.gone
if gone then
  local plain, dated = call, {}
  local makes, takes = {}, {}
  for name in string.gmatch('ZADD HSET HSETNX HINCRBY SADD XADD RPUSH SET SETRANGE APPEND BITFIELD INCR PERSIST',
                            '%a+') do makes[name] = true end
  for name in string.gmatch('ZREM ZREMRANGEBYRANK HDEL SREM SPOP XDEL XTRIM LPOP DEL UNLINK RENAME SET PERSIST',
                            '%a+') do takes[name] = true end
  call = function(command, key, ...)
    local answer = plain(command, key, ...)
    if takes[command] then dated = {} end
    if makes[command] and not dated[key] then
      if plain('TTL', key) == -1 then plain('EXPIREAT', key, text(gone)) end
      dated[key] = true
    end
    return answer
  end
end

-- Forms

local function encode_word(word)
  if word < 0 then return '\0' .. pack('>I7', word + BIAS) end
  return '\1' .. pack('>I7', word)
end

local function decode_word(form, i)
  local at = 8 * i - 7
  local word = unpack_word('>I7', form, at + 1)
  if string.byte(form, at) == 0 then return word - BIAS end
  return word
end

local function encode_words(list)
  local parts = {}
  for i, word in ipairs(list) do parts[i] = encode_word(word) end
  return table.concat(parts)
end

-- Reads the words of a form into the columns `w` at a slot.
local function decode_form(form, w, slot, count)
  if scored then
    for i = 1, count do
      local own = floor(form / units[i])
      w[i][slot], form = own + lows[i], form - own * units[i]
    end
  else
    for i = 1, count do w[i][slot] = decode_word(form, i) end
  end
end

local function encode_form(w, slot, count)
  if scored then
    local form = 0
    for i = 1, count do form = form + (w[i][slot] - lows[i]) * units[i] end
    return form
  end
  local parts = {}
  for i = 1, count do parts[i] = encode_word(w[i][slot]) end
  return table.concat(parts)
end

-- Returns a form minus the sums of a cell.
local function subtract_cell(form, cell)
  if scored then
    for i = 1, columns do
      local own = floor(cell / units[i])
      cell = cell - own * units[i]
      if sums[i] then form = form - (own + lows[i]) * units[i] end
    end
    return form
  end
  local parts = {}
  for i = 1, columns do
    local own = sub(form, 8 * i - 7, 8 * i)
    parts[i] = sums[i] and encode_word(decode_word(form, i) - decode_word(cell, i)) or own
  end
  parts[columns + 1] = sub(form, 8 * columns + 1)
  return table.concat(parts)
end

-- Returns the score in a form: the part that is equal for members of the same rank.
local function score_of(ranked, form)
  if scored then
    local unit = units[columns]
    return floor(form / unit) * unit
  end
  return sub(form, 1, 8 * ranked.columns)
end

-- Returns the least text that sorts after every text with this prefix.
local function after_prefix(prefix)
  local i = #prefix
  while i > 0 and string.byte(prefix, i) == 255 do i = i - 1 end
  return sub(prefix, 1, i - 1) .. string.char(string.byte(prefix, i) + 1)
end

-- Runs commands with many names in parts, since the Lua stack limits how many arguments one call
-- can have.

local function fetch(command, from, names)
  if #names <= CHUNK then return #names > 0 and call(command, from, unpack(names)) or {} end
  local values = {}
  for first = 1, #names, CHUNK do
    local part = call(command, from, unpack(names, first, math.min(#names, first + CHUNK - 1)))
    for i = 1, #part do values[first + i - 1] = part[i] end
  end
  return values
end

local function send(command, to, args)
  for first = 1, #args, 2 * CHUNK do
    call(command, to, unpack(args, first, math.min(#args, first + 2 * CHUNK - 1)))
  end
end

-- Scopes

local function in_scope(window, scope)
  return scope == '' and window or window .. '\31' .. scope
end

-- Returns the name of a window in the board's definition, without the scope.
local function window_of(name) return string.match(name, '^[^\31]*') end

-- Returns the last boundary or, if that is later, the last change of the board. Scopes that were
-- last advanced before this instant are stale.
local function stale_before(boundary)
  return math.max(boundary, tonumber(call('HGET', KEYS[1], 'since') or boundary))
end

-- Rankings

local function ranking(window, instance)
  local name = window .. ':' .. text(instance)
  local ranked = {r = P .. 'r:' .. name, name = name, window = window, instance = instance}
  ranked.columns = B.decays and B.decays[window_of(window)] and 2 or columns
  ranked.width, ranked.words = ranked.columns + width - columns, ranked.columns + words - columns
  if not scored then ranked.k = P .. 'k:' .. name end
  if B.dense then ranked.d, ranked.n = P .. 'd:' .. name, P .. 'n:' .. name end
  return ranked
end

-- Returns whether a ranking has the layout with a head. On a board that had a head before, the
-- rankings made at that time still have this layout.
local function has_head(ranked)
  if B.head then return true end
  if not head.sizes then return false end
  if ranked.has_head == nil then ranked.has_head = call('EXISTS', P .. 'g:' .. ranked.name) == 1 end
  return ranked.has_head
end

-- Returns the forms of members, false for those that are not ranked.
local function forms_of(ranked, names)
  if has_head(ranked) then return head.forms_of(ranked, names) end
  if not scored then return fetch('HMGET', ranked.k, names) end
  local scores = fetch('ZMSCORE', ranked.r, names)
  for i = 1, #names do scores[i] = scores[i] and tonumber(scores[i]) end
  return scores
end

local function form_of(ranked, member) return forms_of(ranked, {member})[1] end

-- Returns the entry of a member in the sorted set.
local function entry_of(ranked, form, member)
  if scored then return member end
  return sub(form, 1, 8 * ranked.width) .. member
end

-- Updates the distinct scores of a board with dense ranks: adds `by` to the number of members of
-- each of these scores.
local function update_distinct_scores(ranked, by)
  local names, rows, adds, drops, gone = {}, {}, {}, {}, {}
  for score, change in pairs(by) do
    if change ~= 0 then names[#names + 1] = score end
  end
  local fields = {}
  for i, score in ipairs(names) do fields[i] = scored and text(score) or score end
  local counts = fetch('HMGET', ranked.n, fields)
  for i, score in ipairs(names) do
    local was = tonumber(counts[i] or '0')
    local is = was + by[score]
    if is > 0 then
      rows[#rows + 1], rows[#rows + 2] = fields[i], text(is)
      if was == 0 then
        adds[#adds + 1], adds[#adds + 2] = scored and score or 0, fields[i]
      end
    else
      gone[#gone + 1] = fields[i]
    end
  end
  send('HDEL', ranked.n, gone)
  send('ZREM', ranked.d, gone)
  send('HSET', ranked.n, rows)
  send('ZADD', ranked.d, adds)
end

-- Returns whether one text sorts before another in byte order.
local function precedes(one, other)
  for i = 1, math.min(#one, #other) do
    local a, b = string.byte(one, i), string.byte(other, i)
    if a ~= b then return a < b end
  end
  return #one < #other
end

-- Replaces the old forms of members in a ranking by new ones; false stands for a member that is not
-- ranked.
local function replace_forms(ranked, names, olds, news)
  hidden_entries.keep(ranked, names, olds, news)
  if has_head(ranked) then return head.replace_forms(ranked, names, olds, news) end
  local adds, drops, rows, lost, by = {}, {}, {}, {}, {}
  local added, wrote = 0, 0
  for i = 1, #names do
    local member, old, new = names[i], olds[i], news[i]
    if old ~= new then
      if scored then
        if new then
          adds[added + 1], adds[added + 2], added = new, member, added + 2
        else
          drops[#drops + 1] = member
        end
      else
        local size = 8 * ranked.width
        local was, is = old and sub(old, 1, size), new and sub(new, 1, size)
        if was ~= is then
          if was then drops[#drops + 1] = was .. member end
          if is then adds[added + 1], adds[added + 2], added = 0, is .. member, added + 2 end
        end
        if new then
          rows[wrote + 1], rows[wrote + 2], wrote = member, new, wrote + 2
        else
          lost[#lost + 1] = member
        end
      end
      if B.dense then
        local was, is = old and score_of(ranked, old), new and score_of(ranked, new)
        if old then by[was] = (by[was] or 0) - 1 end
        if new then by[is] = (by[is] or 0) + 1 end
      end
    end
  end
  send('ZREM', ranked.r, drops)
  send('ZADD', ranked.r, adds)
  if not scored then
    send('HDEL', ranked.k, lost)
    send('HSET', ranked.k, rows)
  end
  if B.dense then update_distinct_scores(ranked, by) end
end

-- Expiry: if the server's clock is used, the server removes the keys of a period that can no longer
-- be read or written. This applies only to rankings of calendar windows; all other keys are needed
-- until the board is removed.

local SLACK = 3600  -- seconds by which an expiry may differ from its due time

-- Returns the time, in seconds, at which the keys of a ranking expire, by `lives` or else by the
-- definition; at least A.earliest.
local function expiry_of(window, instance, lives)
  local own = (lives or B.lives or {})[window_of(window)]
  local at = own and math.ceil((instance + own) / 1000)
  if at and A.earliest then at = math.max(at, A.earliest) end
  if gone then return at and math.min(at, gone) or gone end
  return at
end

-- Returns whether the expiry of a key with this time to live has to be changed.
local function differs(ttl, at)
  local left = at - floor(A.now / 1000)
  return ttl ~= -2 and left > 0 and (ttl < 0 or math.abs(ttl - left) > SLACK)
end

-- Returns whether a ranking has no members.
local function is_empty(ranked)
  if has_head(ranked) then return head.size(ranked) == 0 end
  return call('EXISTS', ranked.r) == 0
end

-- Sets the expiry of the keys of a ranking. A frozen ranking gets one only if the caller knows that
-- it is sealed (A.sealed). With A.dated only an existing expiry is changed.
local function expire(ranked, window, instance, lives)
  if has_head(ranked) then return end  -- see `head.expire`
  local at = expiry_of(window, instance, lives)
  local ttl = at and call('TTL', ranked.r)
  if not at or not differs(ttl, at) or A.dated and ttl < 0 then return end
  if not A.sealed and closing.is_frozen({window = window, instance = ranked.step or instance}) then return end
  call('EXPIREAT', ranked.r, text(at))
  call('EXPIREAT', P .. 'ho:' .. ranked.name, text(at))
  if ranked.k then call('EXPIREAT', ranked.k, text(at)) end
  if ranked.d then
    call('EXPIREAT', ranked.d, text(at))
    call('EXPIREAT', ranked.n, text(at))
  end
end

-- Returns the rank of an entry of the sorted set, from 0, in the rank style of the board.
local function exact_rank(ranked, form, member)
  if B.rank == 'ordinal' then return call('ZRANK', ranked.r, entry_of(ranked, form, member)) end
  local among = B.dense and ranked.d or ranked.r
  if scored then return call('ZCOUNT', among, '-inf', '(' .. text(score_of(ranked, form))) end
  return call('ZLEXCOUNT', among, '-', '(' .. score_of(ranked, form))
end

-- Returns the rank of a form, -1 for a member that is not listed. In a ranking with a head it is
-- the member's least possible rank.
local function rank_of(ranked, form, member)
  if not form then return -1 end
  if has_head(ranked) then return head.locate(ranked, form, member).rank end
  if ranked.hidden and zeros.hides(ranked, member) then return -1 end
  local rank = exact_rank(ranked, form, member)
  return (ranked.zeros or ranked.hidden) and zeros.rank(ranked, rank) or rank
end

-- Refused calls

-- Returns nil if the caller's definition, hidden members (A.hid) and times are current, else the reply
-- that refuses the call. `more` are further rolling windows to check besides those of the argument: {name, running,
-- scope}.
local function refusal_reply(more)
  local rolling, fields = A.rolling or {}, {'ver', 'now'}
  for _, w in ipairs(more or {}) do rolling[#rolling + 1] = w end
  for i, w in ipairs(rolling) do fields[i + 2] = 'run:' .. w.name end
  for i, name in ipairs({'heads', 'tracking', 'hid', 'listed'}) do fields[#rolling + 2 + i] = name end
  local stored = fetch('HMGET', KEYS[1], fields)
  head.use(stored[#rolling + 3])
  tracking.state = stored[#rolling + 4]
  hidden_entries.stored = stored[#rolling + 6]
  local is_current = stored[1] == B.version and stored[#rolling + 5] == (A.hid or false)
  if not is_current then return {'definition_outdated'} end
  local now = tonumber(stored[2] or '-1e300')
  if A.lag and A.now < now - A.lag then return {'plan_expired', now} end
  if A.now then A.now = math.max(A.now, now) end
  now = A.now or now
  if A.due and now >= A.due then return {'plan_expired', now} end
  local stale_scopes = {}
  for i, w in ipairs(rolling) do
    local stored_step = tonumber(stored[i + 2] or w.running)
    w.stored_step = stored[i + 2]
    if stored_step > w.running then return {'plan_expired', math.max(now, A.due)} end
    if stored_step < w.running then stale_scopes[#stale_scopes + 1] = w.scope or '' end
  end
  return #stale_scopes > 0 and {'step_not_ready', stale_scopes} or nil
end

-- Returns nil if the stored positions are those that the caller expects, else the reply that
-- refuses the call. A.follows has them: source, text, …, where an empty text stands for no
-- position.
local function position_conflict()
  local follows = A.follows or {}
  for i = 1, #follows, 2 do
    local stored = call('HGET', P .. 'p', follows[i]) or ''
    if stored ~= follows[i + 1] then return {'position_moved', follows[i], stored} end
  end
end

-- Appends a change to the stream of changes; returns its number.
local function append_change(kind, value)
  local seq = call('HINCRBY', KEYS[1], 'seq', '1')
  call('XADD', P .. 's', 'MAXLEN', '~', '1000', '*', 'seq', text(seq), kind, value)
  return seq
end
