-- The operations of `heads.py` on one ranking: write, advance, apply a changed `hide_zero`, keep the entries of
-- hidden members, read.
local ranked = ranking('all', 0)

local function form_from_words(list)
  local w = {}
  for i = 1, #list do w[i] = {list[i]} end
  return encode_form(w, 1, #list)
end

if A.op == 'write' then
  local news = {}
  for i, list in ipairs(A.news) do news[i] = list and form_from_words(list) end
  replace_forms(ranked, A.members, forms_of(ranked, A.members), news)
  return cmsgpack.pack(head.is_due or false)
end
if A.op == 'advance' then return cmsgpack.pack(head.advance(ranked, A.limit)) end
if A.op == 'hide' then
  head.apply_hiding(head.state(ranked), ranked)
  head.save(ranked)
  return cmsgpack.pack(true)
end

if A.op == 'keep' then
  hidden_entries.put_list(A.listed, nil, {A.members, #A.members})
  hidden_entries.update(ranked)
  return cmsgpack.pack(true)
end

if A.hidden then zeros.leave_out(ranked, A.hidden) end
if B.hide_zero then zeros.find(ranked, A.zeros) end
local s, found = head.state(ranked), {}
for i, form in ipairs(forms_of(ranked, A.members)) do
  local own = form and head.locate(ranked, form, A.members[i])
  found[i] = own and {own.position, own.rank, own.high} or false
end
return cmsgpack.pack({head.total(ranked), head.certain(ranked), s.grid and s.changes or false, found})
