-- The function of the scripts that settle. This file is inserted before their text, after common.lua.

-- Move the facts that a tick counts into a shard's windows: those stamped up to the tick. Return true if the windows
-- have these facts and no others. Return false if this is impossible, because the clock is not in the time in which the
-- tick is counted or a later slot is open, or if facts still wait, so that the script must be called again.
local function settle(meta, waiting)
  local tick = tonumber(ARGV[5])
  if redis.call('HEXISTS', meta, 'opened') == 0 then
    return false
  end
  local slot, now = find_present_slot(ARGV[1], ARGV[2], ARGV[3])
  if slot ~= tick + 1 or now < ARGV[2] + slot * ARGV[3] + ARGV[6] or adapt_opened(meta, slot) > tick then
    return false
  end
  local left = merge(meta, waiting, tick, 2 * ARGV[4], tonumber(ARGV[7]))
  return not left
end
