-- sums(as count) -> {fits, added}: what merge.lua makes of a batch, before anything is written.
-- `added` is {sums, lows, highs, stamps} by member, false where they do not say all, or the caller has
-- told them.
local each = not A.sums and can_merge() and sum_events(new_results())
local added = each and {each.sum, each.low, each.high, each.stamp}
return cmsgpack.pack({count_merged() ~= nil, added or false})
