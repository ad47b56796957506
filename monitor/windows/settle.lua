#!lua flags=allow-oom
-- Move the facts that a tick counts into a shard's windows: those stamped up to the tick. In a MULTI, it precedes the
-- commands that count. It needs hardly any memory (allow-oom), because it only moves facts that are in Redis already.
--
-- KEYS[1..3]  as in write.lua
-- ARGV[1..4]  as in write.lua
-- ARGV[5]     the tick
-- ARGV[6]     the tolerance of clocks (µs): the tick is counted from as_of + tolerance until the next tick closes
-- ARGV[7]     about how many waiting facts to move
--
-- Returns 1 if the windows have these facts and no others. Returns 0 if that is impossible (by the clock, it is not the
-- time to count this tick, or a later slot is open), or if facts still wait (send the script again).

local meta, waiting, tick = KEYS[1], KEYS[2], tonumber(ARGV[5])
if redis.call('HEXISTS', meta, 'opened') == 0 then
  return 0
end
local slot, now = present_slot(ARGV[1], ARGV[2], ARGV[3])
if slot ~= tick + 1 or now < ARGV[2] + slot * ARGV[3] + ARGV[6] or opened_in(meta, slot) > tick then
  return 0
end
local left = merge(meta, waiting, tick, 2 * ARGV[4], tonumber(ARGV[7]))
return left and 0 or 1
