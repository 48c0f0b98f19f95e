-- write_rule(board, stories) -> {{outcomes, rows}, …}: stories of one member, told by rule.lua alone.
--
-- A story is {rankings, events}, an event {values, at, stamp, rankings, sets}; the first ranking is
-- that of `all`. A row is its words, or false.
local APPLIED, UNCHANGED, OUT_OF_RANGE = 1, 2, 3

local function play(event, rankings)
  local values, drafts, changed = {unpack(event.values)}, {}, false
  if event.sets then
    local all = rankings[1]
    values.away = {}
    for i = 1, columns do values.away[i] = all.there[1] and all.w[i][1] or 0 end
  end
  for i, ranking in ipairs(event.rankings) do
    drafts[i] = {}
    if not draft_row(rankings[ranking], 1, values, event.stamp, event.at, B.least, B.most, drafts[i])
    then
      return OUT_OF_RANGE
    end
  end
  for i, ranking in ipairs(event.rankings) do
    changed = changed or drafts[i].changed
    if drafts[i].write then take(rankings[ranking], 1, drafts[i]) end
  end
  return changed and APPLIED or UNCHANGED
end

local answers = {}
for s, story in ipairs(A.stories) do
  local rankings, outcomes, rows = {}, {}, {}
  for r = 1, story.rankings do rankings[r] = rows_of({false}, words) end
  for e, event in ipairs(story.events) do outcomes[e] = play(event, rankings) end
  for r, ranking in ipairs(rankings) do
    rows[r] = ranking.there[1] and {}
    for i = 1, ranking.there[1] and words or 0 do rows[r][i] = ranking.w[i][1] end
    rows[r] = rows[r] or false
  end
  answers[s] = {outcomes, rows}
end
return cmsgpack.pack(answers)
