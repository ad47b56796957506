#!lua flags=allow-oom
-- Set a partition's progress in a shard, also back, and raise `since`, in one step.
--
-- KEYS[1]  meta: the shard's hash
-- ARGV[1]  the field of the partition's progress
-- ARGV[2]  the offset to go on at
-- ARGV[3]  since: the slot from which on facts read from there are whole
-- ARGV[4]  expiry in seconds
--
-- Returns the partition's progress.

redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
local since = redis.call('HGET', KEYS[1], 'since')
if not since or tonumber(since) < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[1], 'since', ARGV[3])
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return ARGV[2]
