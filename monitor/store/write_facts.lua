#!lua
-- Add a batch's facts to a shard, and advance its progress.
--
-- KEYS[1..3]       as in begin_progress.lua
-- (The script computes the keys of windows and designated times from the facts. They have the same hash tag.)
-- ARGV[1..4]       as in begin_progress.lua
-- ARGV[5]          n: the number of ranges
-- ARGV[6..5+3n]    by range: the field of the partition's progress, start, end
-- ARGV[6+3n..]     by portion of facts: s, r, b, p, q or d (common.lua), the stamp, the packed facts
--
-- If the progress has reached a range's start, it becomes max(progress, end). Otherwise it does not change. If no range
-- advances any progress, nothing is stored. Facts are added before progress changes, so after an error the batch can be
-- written again: adding facts twice has no effect.
--
-- Returns the progress by range, -1 if the shard has none.

local meta, waiting, expiry = KEYS[1], KEYS[2], ARGV[4]
local last = 5 + 3 * ARGV[5]
local begun = redis.call('HEXISTS', meta, 'opened') == 1
local reached, moves = {}, false
for i = 6, last, 3 do
  local present = begun and redis.call('HGET', meta, ARGV[i]) or '-1'
  if tonumber(present) >= tonumber(ARGV[i + 1]) and tonumber(present) < tonumber(ARGV[i + 2]) then
    present, moves = ARGV[i + 2], true
  end
  reached[#reached + 1] = present
end
if not moves then
  return reached
end

local opened = adapt_opened(meta, (find_present_slot(ARGV[1], ARGV[2], ARGV[3])))
merge(meta, waiting, opened, 2 * expiry)
for i = last + 1, #ARGV, 3 do
  local kind, stamp, facts = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2]
  if stamp <= opened then
    add(meta, kind, stamp, facts, 1, 2 * expiry)
  else
    redis.call('ZADD', waiting, stamp, struct.pack('>i8c1', stamp, kind) .. facts)
  end
end
for i = 6, last, 3 do
  if reached[(i - 3) / 3] ~= '-1' then
    redis.call('HSET', meta, ARGV[i], reached[(i - 3) / 3])
  end
end
redis.call('EXPIRE', meta, expiry)
redis.call('EXPIRE', waiting, 2 * expiry)
return reached
