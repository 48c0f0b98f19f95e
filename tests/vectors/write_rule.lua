-- write_rule(board, stories) -> {{outcomes, rows}, …}: stories of one member, computed by rule.lua.
--
-- A story is {rankings, events}, and an event is {values, at, stamp, rankings, sets}. The first ranking
-- is that of `all`. A row is the words of the member in one ranking, false if there are none.
local APPLIED, UNCHANGED, OUT_OF_RANGE = 1, 2, 3

local function play(event, rankings)
  local values, new_rows, changed = {unpack(event.values)}, {}, false
  if event.sets then
    local all = rankings[1]
    values.baseline = {}
    for i = 1, columns do values.baseline[i] = all.present[1] and all.w[i][1] or 0 end
  end
  for i, ranking in ipairs(event.rankings) do
    new_rows[i] = {}
    local row = new_rows[i]
    if not compute_row(rankings[ranking], 1, values, event.stamp, event.at, B.least, B.most, row) then
      return OUT_OF_RANGE
    end
  end
  for i, ranking in ipairs(event.rankings) do
    changed = changed or new_rows[i].changed
    if new_rows[i].needs_write then set_row(rankings[ranking], 1, new_rows[i]) end
  end
  return changed and APPLIED or UNCHANGED
end

local answers = {}
for s, story in ipairs(A.stories) do
  local rankings, outcomes, rows = {}, {}, {}
  for r = 1, story.rankings do rankings[r] = rows_of({false}, words) end
  for e, event in ipairs(story.events) do outcomes[e] = play(event, rankings) end
  for r, ranking in ipairs(rankings) do
    rows[r] = ranking.present[1] and {}
    for i = 1, ranking.present[1] and words or 0 do rows[r][i] = ranking.w[i][1] end
    rows[r] = rows[r] or false
  end
  answers[s] = {outcomes, rows}
end
return cmsgpack.pack(answers)
