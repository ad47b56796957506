#!lua flags=allow-oom
-- Move a partition's progress in a shard, forward or back, and raise `complete_from`, in one step.
--
-- KEYS and ARGV as in begin_progress.lua.
--
-- Returns the partition's progress.

begin_shard(KEYS[1], (find_present_slot(ARGV[1], ARGV[2], ARGV[3])), tonumber(ARGV[8]), 2 * ARGV[4])
redis.call('HSET', KEYS[1], ARGV[5], ARGV[6])
raise(KEYS[1], 'complete_from', ARGV[7])
redis.call('EXPIRE', KEYS[1], ARGV[4])
return ARGV[6]
