-- The refresh of a window: what its tallies add up to is built beside what it shows, in shares, and
-- then shown.
--
-- A build goes through the ranking of all and then, in the order of their texts, through the scopes; in
-- each first takes away what the ranking there was of the refresh before last, and then goes through
-- the tallies of the steps that count, from the oldest on. A member it meets for the first time has all
-- its cells added up and is ranked; one it has ranked is passed over. So it is ranked once, and
--
--   who is not ranked by a build has no cells in the steps that the build is through with.
--
-- Events keep that so (count.lua): one of a member that is ranked is counted in what is built, too; one
-- of a member that is not ranked, in a step that the build has come to, has the member ranked. Events
-- in steps to come need not do anything. So a build is exact at any moment for those it has ranked,
-- ends after one round however much is written, and may be gone on with by anybody at any time.
-- A step that passes has it begin anew. When it is through with all, one number goes up.
--
-- ops of `keep`, besides rolls (the window as it runs, alone) and due:
--   refresh (before, forms, limit)   goes on with the refresh, if the last one was before that instant;
--                                    about how many members are left, 0 where nothing is left to do,
--                                    and how the windows stand. `forms` are those of the scopes.
-- `limit` is in cells to be added up, which take 0.2 to 0.4 µs each.
local LOOK = 2      -- what a member weighs whom a build meets, in cells
local RANK = 12     -- what ranking one does beside its cells
local UNRANK = 6    -- what taking one away does
local CALL = 3      -- what a command does, about
local SCOPE = 20    -- what coming to a scope does

local function keep_progress(build, name, at, place)
  call('HSET', KEYS[1], 'built:' .. name, progress_told(build, at, place))
end

local function members_of(ranked, entries)
  if scored then return entries end
  local members = {}
  for i, entry in ipairs(entries) do members[i] = sub(entry, 8 * ranked.width + 1) end
  return members
end

-- Takes away a share of a ranking, with entries that are nobody's; whether nobody is left, and what is
-- left of the limit.
local function clear(ranked, limit)
  while limit > 0 do
    if call('ZCARD', ranked.r) <= SMALL then
      unlink_ranking(ranked)
      return true, limit - CALL
    end
    local most = math.max(1, floor(limit / UNRANK))
    local entries = call('ZRANGE', ranked.r, '0', text(most - 1))
    local members = members_of(ranked, entries)
    local none = {}
    for i = 1, #members do none[i] = false end
    place(ranked, members, forms_of(ranked, members), none)
    send('ZREM', ranked.r, entries)
    limit = limit - UNRANK * #members - CALL
  end
  return false, limit
end

-- Goes on through the tally of a step; the next place, and what is left of the limit.
local function build_step(rolled, step, at, limit)
  local steps = rolled.run - step + 1
  local many = math.max(1, floor(limit / (LOOK + RANK + steps)))
  local names, after_ = share_of('HSCAN', tally(rolled.name, step), at, many, many)
  local there, new = forms_of(rolled.prepared, names), {}
  for i, name in ipairs(names) do
    if not there[i] then new[#new + 1] = name end
  end
  limit = limit - CALL - LOOK * #names
  if #new > 0 then
    place(rolled.prepared, new, {}, (from_cells(rolled, new, step)))
    limit = limit - (RANK + steps) * #new - CALL * steps
  end
  return after_, limit
end

-- Goes on with a build in one scope; whether it is through with it, and what is left of the limit.
local function build_scope(build, w, name, limit)
  local at, from = progress_of(build, name)
  local rolled = rolling({name = name, steps = w.steps}, build.step)
  if at and at ~= 'clear' and at > rolled.run then return true, limit - CALL end
  if not at or at == 'clear' then
    local cleared
    cleared, limit = clear(rolled.prepared, limit)
    at, from = cleared and rolled.leaving or 'clear', ''
  end
  local process = process_of()
  local by, place_there = string.match(from, '^(%x+):(%d+:?%d*)$')
  if by ~= process then place_there = '0:' end
  while at ~= 'clear' and at <= rolled.run and limit > 0 do
    place_there, limit = build_step(rolled, at, place_there, limit)
    if place_there == '0' then at, place_there = at + 1, '0:' end
  end
  keep_progress(build, name, at, process .. ':' .. place_there)
  if at == 'clear' or at <= rolled.run then return false, limit end
  if call('EXISTS', rolled.prepared.r) == 1 then
    call('HSET', KEYS[1], 'some:' .. w.name, '1')
  else
    call('HSET', KEYS[1], 'empty:' .. w.name, '1')
  end
  return true, limit
end

-- The scopes from a place on, a few of one form: the number of the form and a scope behind it.
local function next_scopes(form, after_)
  local from = after_ == '' and '-' or '(' .. after_
  return call('ZRANGEBYLEX', P .. 'l:' .. A.forms[form], from, '+', 'LIMIT', '0', text(SCOPES))
end

-- Goes on with a build; whether it is complete.
local function build_on(build, w, limit)
  local there
  there, limit = build_scope(build, w, w.name, limit)
  local said = call('HGET', KEYS[1], 'next:' .. w.name) or '1:'
  local form, after_ = string.match(said, '^(%d+):(.*)$')
  form = tonumber(form)
  while there and limit > 0 and A.forms[form] do
    local some = next_scopes(form, after_)
    for _, scope in ipairs(some) do
      if limit <= 0 then break end
      there, limit = build_scope(build, w, in_scope(w.name, scope), limit - SCOPE)
      if not there then break end
      after_ = scope
    end
    if #some == 0 then form, after_ = form + 1, '' end
  end
  call('HSET', KEYS[1], 'next:' .. w.name, text(form) .. ':' .. after_)
  return there and not A.forms[form]
end

local function begin(w)
  local number = call('HINCRBY', KEYS[1], 'builds:' .. w.name, '1')
  local build = {number = text(number), step = w.running}
  call('HSET', KEYS[1], 'build:' .. w.name, build.number .. ':' .. text(build.step))
  call('HDEL', KEYS[1], 'next:' .. w.name, 'some:' .. w.name, 'empty:' .. w.name)
  return build
end

-- Shows what was built. Scopes in which there is nobody now are found by a sweep.
local function show(w)
  local name = w.name
  local said = call('HMGET', KEYS[1], 'some:' .. name, 'empty:' .. name)
  call('HINCRBY', KEYS[1], 'gen:' .. name, '1')
  sides[name] = nil
  local seq = tell('refreshed', name)
  call('HSET', KEYS[1], 'shown:' .. name, text(A.now), 'noted:' .. name, text(A.now),
       'moved:' .. name, text(seq))
  if not said[1] then call('HDEL', KEYS[1], 'waits:' .. name) end
  if said[2] and #A.forms > 0 then call('HSET', KEYS[1], 'since', text(A.now + 1)) end
  call('HDEL', KEYS[1], 'build:' .. name, 'next:' .. name, 'some:' .. name, 'empty:' .. name)
end

-- About how many members a build of the ranking of all has left.
local function left_of(w, build)
  local rolled = rolling(w, build.step)
  return math.max(1, call('ZCARD', rolled.live.r) - call('ZCARD', rolled.prepared.r))
end

local function refresh()
  local no = refusal()
  if no then return no end
  see()
  local w, left = A.rolls[1], 0
  local noted, waits = unpack(call('HMGET', KEYS[1], 'noted:' .. w.name, 'waits:' .. w.name))
  if noted and tonumber(noted) >= A.before then return {'done', {0, stands()}} end
  if waits then
    local build = build_of(w.name)
    if not build or build.step ~= w.running then build = begin(w) end
    if build_on(build, w, A.limit) then show(w) else left = left_of(w, build) end
  else
    call('HSET', KEYS[1], 'noted:' .. w.name, text(A.now))
  end
  return {'done', {left, stands()}}
end
