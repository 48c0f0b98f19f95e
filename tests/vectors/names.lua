-- names(board, rankings {window, scope, instance}) -> {{name, window}, …}: the names of rankings.
local found = {}
for i, each in ipairs(A.rankings) do
  local window = in_scope(each[1], each[2])
  found[i] = {ranking(window, each[3]).name, window_of(window)}
end
return cmsgpack.pack(found)
