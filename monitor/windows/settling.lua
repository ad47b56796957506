-- The function of the scripts that settle. This file is inserted before their text, after common.lua.

-- Move the facts that a tick counts into a shard's windows: those stamped up to the tick. Return true if the windows
-- have these facts and no others. Return false if that is impossible (by the clock, it is not the time to count this
-- tick, or a later slot is open), or if facts still wait (call it again).
local function settle(meta, waiting)
  local tick = tonumber(ARGV[5])
  if redis.call('HEXISTS', meta, 'opened') == 0 then
    return false
  end
  local slot, now = present_slot(ARGV[1], ARGV[2], ARGV[3])
  if slot ~= tick + 1 or now < ARGV[2] + slot * ARGV[3] + ARGV[6] or opened_in(meta, slot) > tick then
    return false
  end
  local left = merge(meta, waiting, tick, 2 * ARGV[4], tonumber(ARGV[7]))
  return not left
end
