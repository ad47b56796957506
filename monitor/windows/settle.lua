#!lua flags=allow-oom
-- Let a shard's windows hold what a tick counts: the facts stamped up to it, and no others. It stands before the counting
-- in one MULTI. It adds no memory to speak of: what it moves is there already.
--
-- KEYS[1..2]  as in write.lua
-- ARGV[1..4]  as in write.lua
-- ARGV[5]     the tick
-- ARGV[6]     how far clocks may differ (µs): the tick is counted from as_of + this on, and before the next one closes
--
-- Returns 1 if the windows hold just that; 0 if they can't (the clock is not there, a later slot is open), or if facts
-- wait still: then it is to be sent again.

local meta, waiting, tick = KEYS[1], KEYS[2], tonumber(ARGV[5])
if redis.call('HEXISTS', meta, 'opened') == 0 then
  return 0
end
local slot, now = present_slot(ARGV[1], ARGV[2], ARGV[3])
if slot ~= tick + 1 or now < ARGV[2] + slot * ARGV[3] + ARGV[6] or opened_in(meta, slot) > tick then
  return 0
end
local left = merge(meta, waiting, tick, 2 * ARGV[4])
return left and 0 or 1
