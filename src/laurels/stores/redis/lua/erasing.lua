-- The erasing of a member from a shard; `remove_member` and `remove_from_scopes` remove its rows.
--
-- Ops of `operate`:
--   forget_ids (member, cursor)  removes a share of the member's event ids from P q. Returns how many, and
--     the next cursor
--   forget_names (member)  removes the changes in P s that name the member, and the member from the lists of
--     hidden_entries.lua
local erasing = {ops = {}}

function erasing.ops.forget_ids()
  local prefix, own = string.char(#A.member) .. A.member, {}
  local reply = call('ZSCAN', P .. 'q', A.cursor, 'COUNT', '1000')
  for i = 1, #reply[2], 2 do
    if sub(reply[2][i], 1, #prefix) == prefix then own[#own + 1] = reply[2][i] end
  end
  send('ZREM', P .. 'q', own)
  return {'done', {#own, reply[1]}}
end

function erasing.ops.forget_names()
  for _, entry in ipairs(call('XRANGE', P .. 's', '-', '+')) do
    if entry[2][4] == A.member then call('XDEL', P .. 's', entry[1]) end
  end
  hidden_entries.forget_member(A.member)
  return {'done'}
end
