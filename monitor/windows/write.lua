#!lua
-- Add a batch's facts to a shard, and let progress follow.
--
-- KEYS[1]          meta: the shard's hash
-- KEYS[2]          the facts that wait: a sorted set by stamp
-- (The windows and designated times that facts name begin with the same hash tag; they are known from the facts.)
-- ARGV[1..4]       as in begin.lua: the present instant or nothing, origin, length, expiry of meta in seconds; facts have
--                  twice as long, so that none is gone before the progress that claims it
-- ARGV[5]          n: how many spans
-- ARGV[6..5+3n]    by span: the field of the partition's progress, start, end
-- ARGV[6+3n..]     by portion of facts: s or p, the stamp, packed facts
--
-- Where progress has reached a span's start, it becomes max(progress, end); else it stays, and so it does without any.
-- If no span moves it, nothing is stored. An error before the last step leaves progress where it was, and facts that were
-- added twice change nothing.
-- Returns the present progress by span, -1 where there is none.

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

local opened = opened_in(meta, (present_slot(ARGV[1], ARGV[2], ARGV[3])))
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
