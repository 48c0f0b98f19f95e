-- What all scripts of a shard share: rows as bytes, rankings, tallies, the write rule.
--
-- KEYS[1] is P..'m'; every key of the shard begins with P and lies in its slot:
--   P m                     hash: ver, now, seq; of a rolling window run:<w>, phase:<w>, place:<w>
--   P i                     set of the rankings there are: <window>:<instance>
--   P r:<window>:<instance> sorted set of a ranking, all scores 0: row up to its width, member
--   P k:<window>:<instance> hash: member -> row
--   P d: and n:             of a dense board: its distinct scores, and how many members have each
--   P t:<window>:<step>     hash: member -> cell, the tally of a step
--   P c:<window>            hash: member -> candidates of best columns, by step
--   P q                     sorted set of event ids by when they were accepted
--   P x, p, s               member data, import positions, stream of changes
-- Of a rolling window <instance> is the parity of the step: at a boundary two rankings change
-- places without being touched.
--
-- A word is 8 bytes, a sign and 7 big-endian ones, so that bytes are in the order of numbers and
-- no number passes 2^53. A row is: columns, tie stamp, exact `at`, newest step (the last three
-- where the board or window has them).
local call = redis.call
local P = string.sub(KEYS[1], 1, -2)
local A = cmsgpack.unpack(ARGV[1])
local B = A.board
local BIAS = 9007199254740992
local pack, unpack_word, sub = struct.pack, struct.unpack, string.sub
local columns, ops, tie = B.columns, B.ops, B.tie
local width = columns + (tie ~= 0 and 1 or 0)
local words = width + (B.stamped and 1 or 0)

local function text(number) return string.format('%.17g', number) end

local function put(word)
  if word < 0 then return '\0' .. pack('>I7', word + BIAS) end
  return '\1' .. pack('>I7', word)
end

local function get(row, i)
  local at = 8 * i - 7
  local word = unpack_word('>I7', row, at + 1)
  if string.byte(row, at) == 0 then return word - BIAS end
  return word
end

local function read(row, count)
  local found = {}
  for i = 1, count do found[i] = row and get(row, i) or 0 end
  return found
end

local function write(row, count)
  local parts = {}
  for i = 1, count do parts[i] = put(row[i]) end
  return table.concat(parts)
end

-- The least text after all that begin with a prefix of words.
local function after(prefix)
  local i = #prefix
  while i > 0 and string.byte(prefix, i) == 255 do i = i - 1 end
  return sub(prefix, 1, i - 1) .. string.char(string.byte(prefix, i) + 1)
end

-- Undoing: what an all-or-nothing batch has written, newest last.
local journal = A.atomic and {} or nil

local function hset(key, field, value)
  if journal then journal[#journal + 1] = {key, field, call('HGET', key, field)} end
  if value then call('HSET', key, field, value) else call('HDEL', key, field) end
end

local function zadd(key, member)
  if journal then journal[#journal + 1] = {key, member} end
  call('ZADD', key, '0', member)
end

local function zrem(key, member)
  if journal then journal[#journal + 1] = {key, member, nil, true} end
  call('ZREM', key, member)
end

local function undo()
  for i = #journal, 1, -1 do
    local key, name, old, gone = journal[i][1], journal[i][2], journal[i][3], journal[i][4]
    if gone then call('ZADD', key, '0', name)
    elseif old == nil then call('ZREM', key, name)
    elseif old then call('HSET', key, name, old)
    else call('HDEL', key, name) end
  end
end

local function ranking(window, instance)
  local name = window .. ':' .. text(instance)
  return {r = P .. 'r:' .. name, k = P .. 'k:' .. name, d = P .. 'd:' .. name,
          n = P .. 'n:' .. name, name = name}
end

-- Distinct scores of a dense board, with reference counts.
local function recount(ranked, row, by)
  local score = sub(row, 1, 8 * columns)
  local count = tonumber(call('HGET', ranked.n, score) or '0') + by
  hset(ranked.n, score, count > 0 and text(count) or false)
  if count == 0 then zrem(ranked.d, score) elseif by > 0 and count == 1 then zadd(ranked.d, score) end
end

local function place(ranked, member, old, new)
  local was, is = old and sub(old, 1, 8 * width), new and sub(new, 1, 8 * width)
  if was ~= is then
    if was then zrem(ranked.r, was .. member) end
    if is then zadd(ranked.r, is .. member) end
    if B.dense then
      if was then recount(ranked, was, -1) end
      if is then recount(ranked, is, 1) end
    end
  end
  hset(ranked.k, member, new or false)
end

-- Rolling windows

local function rolling(w)
  local run = tonumber(call('HGET', P .. 'm', 'run:' .. w.name))
  if not run then return nil end
  return {name = w.name, steps = w.steps, run = run, leaving = run - w.steps + 1,
          live = ranking(w.name, run % 2), prepared = ranking(w.name, (run + 1) % 2),
          candidates = P .. 'c:' .. w.name}
end

local function tally(name, step) return P .. 't:' .. name .. ':' .. text(step) end

-- The candidates of a member: {step, words…} by step, those that still count.
local function candidates_of(rolled, member)
  local packed, found = call('HGET', rolled.candidates, member), {}
  local size = 8 * (width + 1)
  for at = 1, packed and #packed or 0, size do
    local candidate = read(sub(packed, at, at + size - 1), width + 1)
    if candidate[1] >= rolled.leaving then found[#found + 1] = candidate end
  end
  return found
end

local function keep_candidates(rolled, member, found)
  local parts = {}
  for i, candidate in ipairs(found) do parts[i] = write(candidate, width + 1) end
  hset(rolled.candidates, member, #parts > 0 and table.concat(parts) or false)
end

-- What is left of a live row when the oldest tally leaves; nil: nothing.
local function row_after(rolled, member, live)
  if get(live, words + 1) <= rolled.leaving then return nil end
  local cell = call('HGET', tally(rolled.name, rolled.leaving), member)
  if not cell then return live end
  if B.best then
    for _, candidate in ipairs(candidates_of(rolled, member)) do
      if candidate[1] > rolled.leaving then
        local row = {}
        for i = 1, width do row[i] = candidate[i + 1] end
        return write(row, width) .. sub(live, 8 * width + 1)
      end
    end
    return nil
  end
  local row, left = read(live, words + 1), read(cell, columns)
  for i = 1, columns do
    if ops[i] == 'sum' then row[i] = row[i] - left[i] end
  end
  return write(row, words + 1)
end

local function prepare(rolled, member, live)
  local new = live and row_after(rolled, member, live) or nil
  local old = call('HGET', rolled.prepared.k, member) or nil
  if new ~= old then place(rolled.prepared, member, old, new) end
end

-- Does about `limit` members of the pass that prepares the next step; what is left of the limit.
local function advance(rolled, limit)
  local meta = P .. 'm'
  local phase = tonumber(call('HGET', meta, 'phase:' .. rolled.name) or '0')
  while phase < 2 and limit > 0 do
    local key = tally(rolled.name, rolled.leaving - 1 + phase)
    local cursor = call('HGET', meta, 'place:' .. rolled.name) or '0'
    local found = call('HSCAN', key, cursor, 'COUNT', text(math.min(limit, 128)))
    for i = 1, #found[2], 2 do
      local member = found[2][i]
      prepare(rolled, member, call('HGET', rolled.live.k, member) or nil)
    end
    limit = limit - #found[2] / 2 - 1
    if found[1] == '0' then
      phase = phase + 1
      call('HSET', meta, 'phase:' .. rolled.name, text(phase))
    end
    call('HSET', meta, 'place:' .. rolled.name, found[1])
  end
  return limit, phase >= 2
end

-- Whether the caller knows the board and the time; what to say where it does not.
local function refusal()
  local known = call('HMGET', P .. 'm', 'ver', 'now')
  if known[1] ~= text(B.version) then return {'stale'} end
  local now = tonumber(known[2] or '-1e300')
  if A.due and now >= A.due then return {'behind', now} end
  if A.now then A.now = math.max(A.now, now) end
  for _, w in ipairs(A.rolls or {}) do
    local run = tonumber(call('HGET', P .. 'm', 'run:' .. w.name))
    if run and run < w.running then return {'unturned'} end
  end
  return nil
end

-- Ranks from 0, in the style of the board.
local function rank_of(ranked, row, member)
  if not row then return -1 end
  if B.rank == 'ordinal' then
    return call('ZRANK', ranked.r, sub(row, 1, 8 * width) .. member)
  end
  local key = B.dense and ranked.d or ranked.r
  return call('ZLEXCOUNT', key, '-', '(' .. sub(row, 1, 8 * columns))
end
