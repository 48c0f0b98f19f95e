-- mend (window, instance, scope, form, members, present, columns, expected or nil, now, …):
-- replaces entries of one ranking as a whole.
--
-- `present` has 1 for a member that gets an entry, 0 for a member that loses its entry; `columns`
-- are the words, by column. With `expected` {present, columns} a member is changed only if its
-- current entry is the expected one. `before`, `oldest` and `windows` are as in scopes.lua. Returns
-- for each member 1 if it was changed.

local function form_in(entries, slot, ranked)
  return entries.present[slot] == 1 and encode_form(entries.columns, slot, ranked.words)
end

-- Registers a ranking that now has members, and its scope. The caller has already advanced the
-- scope if it existed.
local function note_mended(ranked)
  if A.scope == '' then
    call('SADD', P .. 'i', ranked.name)
  else
    call('HSET', P .. 'i:' .. A.scope, ranked.name, '')
    if B.closes then call('SADD', P .. 'i', A.window .. ':' .. text(A.instance)) end
    call('ZADD', P .. 'o', 'NX', text(A.now), A.scope)
    call('ZADD', P .. 'l:' .. A.form, '0', A.scope)
  end
  if B.lives then expire(ranked, in_scope(A.window, A.scope), A.instance) end
end

local function mend()
  note_time()
  A.now = math.max(A.now, tonumber(call('HGET', KEYS[1], 'now')))
  local ranked = ranking(in_scope(A.window, A.scope), A.instance)
  local olds, news, done, count = forms_of(ranked, A.members), {}, {}, 0
  local frozen = closing.is_frozen(ranked)
  for slot = 1, #A.members do
    local is_as_expected = not frozen and (not A.expected or olds[slot] == form_in(A.expected, slot, ranked))
    news[slot], done[slot] = olds[slot], 0
    if is_as_expected then
      news[slot], done[slot], count = form_in(A, slot, ranked), 1, count + 1
    end
  end
  replace_forms(ranked, A.members, olds, news)
  if not is_empty(ranked) then
    note_mended(ranked)
  elseif A.scope ~= '' and call('ZSCORE', P .. 'o', A.scope) then
    prune_scope(A.scope)
  end
  append_change('mended', text(count))
  tracking.note(A.scope, A.members)
  if A.changes and count > 0 then record(count, A.time, cmsgpack.pack(done)) end
  return {'done', done}
end
