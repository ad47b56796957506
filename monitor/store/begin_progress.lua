#!lua
-- Start a partition's progress in a shard that has none, and raise `complete_from`, in one step.
--
-- KEYS[1]      meta: the shard's hash
-- KEYS[2]      the waiting facts
-- KEYS[3]      a key that never exists, so that a cluster refuses the script while it moves the shard
-- KEYS[4..3+w] the windows, and the reports and buckets of rows
-- KEYS[4+w..]  every set of a designated time that the shard may have
-- ARGV[1]      the present instant (µs) of a simulated clock; empty to use the server's clock
-- ARGV[2]      the origin of the slot grid (µs)
-- ARGV[3]      the length of a slot (µs)
-- ARGV[4]      expiry of meta in seconds; all other keys expire after twice this time, so later than the progress that
--              claims their facts
-- ARGV[5]      the field of the partition's progress
-- ARGV[6]      the offset to start at
-- ARGV[7]      complete_from: facts read from that offset are complete for visits that end in this slot or later
-- ARGV[8]      w: the number of windows, reports and buckets
--
-- Returns the partition's progress, as the string that is stored, because Lua would round a large number.

begin_shard(KEYS[1], (find_present_slot(ARGV[1], ARGV[2], ARGV[3])), tonumber(ARGV[8]), 2 * ARGV[4])
if redis.call('HSETNX', KEYS[1], ARGV[5], ARGV[6]) == 1 then
  raise(KEYS[1], 'complete_from', ARGV[7])
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return redis.call('HGET', KEYS[1], ARGV[5])
