#!lua
-- Move facts stamped up to a slot into the windows, after the tick before this slot has been decided.
--
-- KEYS[1..3]  as in begin_progress.lua
-- ARGV[1..4]  as in begin_progress.lua
-- ARGV[5]     the slot
--
-- If the slot has not begun, this opens the present slot instead.
--
-- Returns 1.

local meta = KEYS[1]
if redis.call('HEXISTS', meta, 'opened') == 1 then
  local slot = (find_present_slot(ARGV[1], ARGV[2], ARGV[3]))
  local may = math.min(tonumber(ARGV[5]), slot)
  if adapt_opened(meta, slot) < may then
    set_number(meta, 'opened', may)
  end
  merge(meta, KEYS[2], may, 2 * ARGV[4])
end
return 1
