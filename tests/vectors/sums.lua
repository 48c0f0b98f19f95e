-- sums(arguments of count) -> {fits, added}: the sums that merge.lua computes for a batch before it
-- writes. `added` is {sums, lows, highs, stamps} by member. `added` is false if such sums do not
-- suffice to count the batch, or if the caller has sent the sums, so that the script need not
-- compute them.
local each = not A.sums and can_merge() and sum_events(new_results())
local added = each and {each.sum, each.low, each.high, each.stamp}
return cmsgpack.pack({count_merged() ~= nil, added or false})
