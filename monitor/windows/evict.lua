#!lua flags=allow-oom
-- Cut off what no question reaches any more, say so in the shard's hash, and renew the expiry of the rest.
--
-- KEYS[1]            meta: the shard's hash
-- KEYS[2]            the facts that wait
-- KEYS[3..2+w]       the sorted sets of its watched rows
-- KEYS[3+w..2+w+d]   sets of designated times to drop
-- KEYS[3+w+d..]      sets of designated times to keep
-- ARGV[1]            expiry of meta in seconds; facts have twice as long, so that none is gone before the progress that
--                    claims it
-- ARGV[2]            w: how many sorted sets
-- ARGV[3]            d: how many sets to drop
-- ARGV[4]            trimmed: the slot before which everything is cut off
-- ARGV[5]            dropped: the latest designated time to drop; not there if d = 0
--
-- `trimmed` and `dropped` are raised (never lowered) before anything is cut: an error stops a script, so nothing can
-- be missing unsaid. Runs when memory is full too, for it frees some.

local windows, dropped = tonumber(ARGV[2]), tonumber(ARGV[3])

raise(KEYS[1], 'trimmed', ARGV[4])
if dropped > 0 then
  raise(KEYS[1], 'dropped', ARGV[5])
end
for i = 3, 2 + windows do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', '(' .. ARGV[4])
end
for i = 3 + windows, 2 + windows + dropped do
  redis.call('UNLINK', KEYS[i])
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
for i = 2, #KEYS do
  redis.call('EXPIRE', KEYS[i], 2 * ARGV[1])
end
return 1
