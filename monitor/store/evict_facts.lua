#!lua flags=allow-oom
-- Evict facts that are no longer counted, record the eviction in the shard's hash, and renew the expiry of the rest if
-- an eighth of it has passed. (Renewing it at each tick would write a line to the append-only file for each key.)
--
-- KEYS[1..3]         as in begin_progress.lua
-- KEYS[4..3+w]       the windows, then the reports and buckets of rows
-- KEYS[4+w..3+w+d]   sets of designated times to delete, of people and of lengths
-- KEYS[4+w+d..]      the sets of designated times to keep
-- ARGV[1]            expiry of meta in seconds, as ARGV[4] in begin_progress.lua
-- ARGV[2]            w: the number of windows, reports and buckets
-- ARGV[3]            d: the number of sets to delete
-- ARGV[4]            evicted_before: facts about slots before this one are removed
-- ARGV[5]            r: how many of them are reports or buckets
-- ARGV[6]            reports stamped before this slot, and buckets that end before it, are removed, because their visits end before `evicted_before`
-- ARGV[7]            times_evicted_until: the latest designated time to delete; missing if d = 0
--
-- `evicted_before` and `times_evicted_until` are raised (never lowered) before anything is removed. An error stops a
-- script, so no fact is ever missing without a record of its eviction. The script also runs when memory is full, because
-- it frees memory.

local windows, deleted, expiry = tonumber(ARGV[2]), tonumber(ARGV[3]), 2 * ARGV[1]
local renews = was_renewed_before(KEYS[1], expiry / 8)

raise(KEYS[1], 'evicted_before', ARGV[4])
if deleted > 0 then
  raise(KEYS[1], 'times_evicted_until', ARGV[7])
end
for i = 4, 3 + windows do
  local oldest = i > 3 + windows - ARGV[5] and ARGV[6] or ARGV[4]
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', '(' .. oldest)
end
for i = 4 + windows, 3 + windows + deleted do
  redis.call('UNLINK', KEYS[i])
  redis.call('HDEL', KEYS[1], string.sub(KEYS[i], #KEYS[1] - 3))  -- the name without the prefix
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
if renews then
  for i = 2, #KEYS do
    redis.call('EXPIRE', KEYS[i], expiry)
  end
  set_number(KEYS[1], 'renewed', redis.call('TIME')[1])
end
return 1
