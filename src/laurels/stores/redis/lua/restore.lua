-- Writes boards that are copied from another store (see core/contents.py). Writing the same data
-- twice has no effect. Ops of `operate`:
--   restore_rows (window, instance, scope, form, steps, running, is_tally, closes, members, columns, now)
--     writes rows of a ranking or a tally; `columns` are the words, by column, and after these the newest
--     steps in the ranking of a rolling window; `steps` is 0 in a window that does not roll
--   restore_ids (entries), restore_data (entries)
--     write event ids with their times, and member data
--   restore_state (now, shown, positions, block or nil)
--     writes the rest: `shown` has, by window, the time of the last refresh and whether the window
--     waits for another refresh; `block` is the sequence and tag of the newest block of changes

local function restored_forms(count)
  local forms = {}
  for slot = 1, #A.members do forms[slot] = encode_form(A.columns, slot, count) end
  return forms
end

local function put_forms(ranked, forms)
  replace_forms(ranked, A.members, forms_of(ranked, A.members), forms)
end

-- Appends candidates of a step to those of earlier steps.
local function restore_candidates(rolling)
  local packed, args, size = candidates_of(rolling, A.members), {}, 8 * (width + 1)
  for slot, member in ipairs(A.members) do
    local list, candidate = packed[slot] or '', {A.instance}
    for i = 1, width do candidate[i + 1] = A.columns[i][slot] end
    if list == '' or decode_word(sub(list, -size), 1) < A.instance then
      args[#args + 1], args[#args + 2] = member, list .. encode_candidates({candidate})
    end
  end
  send('HSET', rolling.candidates, args)
end

local function restore_cells(rolling)
  local forms, cells = {}, {}
  if B.best and not rolling.refreshed then
    restore_candidates(rolling)
  else
    forms = restored_forms(words)
  end
  for slot, member in ipairs(A.members) do
    cells[2 * slot - 1], cells[2 * slot] = member, forms[slot] or ''
  end
  write_tally(tally(rolling.name, A.instance), cells)
end

-- Writes the live ranking of a rolling window, and the ranking prepared for the next step.
local function restore_window(rolling)
  local forms = restored_forms(words)
  if rolling.refreshed then return put_forms(rolling.live, forms) end
  local newest, steps = A.columns[words + 1], {}
  for slot, member in ipairs(A.members) do
    steps[2 * slot - 1], steps[2 * slot] = member, newest[slot]
    if not scored then forms[slot] = forms[slot] .. encode_word(newest[slot]) end
  end
  put_forms(rolling.live, forms)
  if scored then send('HSET', rolling.newest, steps) end
  prepare(rolling, A.members, forms, newest, fetch('HMGET', rolling.oldest_tally, A.members),
          candidates_of(rolling, A.members))
end

local function restore_rows()
  local name = in_scope(A.window, A.scope)
  if A.scope ~= '' then
    call('ZADD', P .. 'o', 'NX', text(A.now), A.scope)
    call('ZADD', P .. 'l:' .. A.form, '0', A.scope)
  end
  if A.steps > 0 then
    local rolling = rolling_window({name = name, steps = A.steps}, A.running)
    if A.is_tally then restore_cells(rolling) else restore_window(rolling) end
    begin_step(name, A.running)
    return {'done'}
  end
  local ranked = ranking(name, A.instance)
  put_forms(ranked, restored_forms(ranked.words))
  if A.scope == '' then
    call('SADD', P .. 'i', ranked.name)
  else
    call('HSET', P .. 'i:' .. A.scope, ranked.name, '')
    if A.closes then call('SADD', P .. 'i', A.window .. ':' .. text(A.instance)) end
  end
  if B.lives then expire(ranked, name, A.instance) end
  return {'done'}
end

local function restore_ids()
  send('ZADD', P .. 'q', A.entries)
  return {'done'}
end

local function restore_data()
  send('HSET', P .. 'x', A.entries)
  return {'done'}
end

local function restore_state()
  local seq, fields = append_change('copied', ''), {'now', text(A.now)}
  local function set(field, value) fields[#fields + 1], fields[#fields + 2] = field, value end
  for window, shown in pairs(A.shown) do
    if shown[1] then
      set('shown:' .. window, text(shown[1]))
      set('noted:' .. window, text(shown[1]))
      set('moved:' .. window, text(seq))
    end
    if shown[2] then set('waits:' .. window, '1') end
  end
  if A.block then
    set('hseq', A.block[1])
    set('htag', A.block[2])
    set('hfloor', A.block[1] .. ':' .. A.block[2])
    set('hcount', '0')
  end
  send('HSET', KEYS[1], fields)
  send('HSET', P .. 'p', A.positions)
  return {'done'}
end
