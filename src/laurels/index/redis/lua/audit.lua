-- audit(board, roll or nil, name, side, cursor, mend) -> {'done', cursor, entries, difference or ''}
-- Compares a share of a ranking with what it follows from, member by member, so that writes in
-- between do not matter; with `mend` puts right what differs.
--
-- side 'rows': every row has its entry; of a rolling window it is what the tallies add up to, and,
--   once the pass is complete, what is prepared follows from it
-- side 'entries': every entry has its row
local no = refusal()
if no then return no end

local rolled = A.roll and rolling(A.roll) or nil
if A.roll and not rolled then return {'done', '0', 0, ''} end
local window, instance = string.match(A.name, '^(.*):([^:]*)$')
local ranked = rolled and rolled.live or ranking(window, tonumber(instance))
local complete = rolled and call('HGET', P .. 'm', 'phase:' .. rolled.name) == '2'

local function from_candidates(member)
  local found = candidates_of(rolled, member)
  if #found == 0 then return nil end
  local row = {}
  for i = 1, width do row[i] = found[1][i + 1] end
  row[words + 1] = found[#found][1]
  return write(row, words + 1)
end

local function from_cells(member)
  local row = nil
  for step = rolled.leaving, rolled.run do
    local packed = call('HGET', tally(rolled.name, step), member)
    if packed then
      local cell = read(packed, words)
      for i = 1, columns do
        if ops[i] == 'sum' and row then cell[i] = cell[i] + row[i] end
      end
      cell[words + 1] = step
      row = cell
    end
  end
  return row and write(row, words + 1) or nil
end

local function is_placed(of, row, member)
  return call('ZSCORE', of.r, sub(row, 1, 8 * width) .. member) ~= false
end

local function put_right(of, old, new, member)
  if old then place(of, member, old, nil) end
  if new then place(of, member, nil, new) end
end

local function judge_row(member, row)
  local due = row
  if rolled then
    if B.best then due = from_candidates(member) else due = from_cells(member) end
  end
  if due ~= row or not is_placed(ranked, row, member) then
    if not A.mend then return member end
    put_right(ranked, row, due, member)
  end
  if complete and due then
    local after_this, prepared = row_after(rolled, member, due), call('HGET', rolled.prepared.k, member) or nil
    if after_this ~= prepared or (prepared and not is_placed(rolled.prepared, prepared, member)) then
      if not A.mend then return member end
      put_right(rolled.prepared, prepared, after_this, member)
    end
  end
  return nil
end

local found, difference
if A.side == 'rows' then
  found = call('HSCAN', ranked.k, A.cursor, 'COUNT', '100')
  for i = 1, #found[2], 2 do
    difference = difference or judge_row(found[2][i], found[2][i + 1])
  end
else
  found = call('ZSCAN', ranked.r, A.cursor, 'COUNT', '100')
  for i = 1, #found[2], 2 do
    local entry = found[2][i]
    local member = sub(entry, 8 * width + 1)
    local row = call('HGET', ranked.k, member)
    if not row or sub(row, 1, 8 * width) ~= sub(entry, 1, 8 * width) then
      if A.mend then call('ZREM', ranked.r, entry) else difference = difference or member end
    end
  end
end
return {'done', found[1], #found[2] / 2, difference or ''}
