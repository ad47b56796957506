#!lua
-- Start a partition's progress in a shard that has none, and raise `since`, in one step.
--
-- KEYS[1]   meta: the shard's hash
-- KEYS[2]   the facts that wait
-- KEYS[3..] every window and designated time that the shard may hold
-- ARGV[1]   the present instant where the clock is simulated, else empty
-- ARGV[2]   the origin of the slots
-- ARGV[3]   their length
-- ARGV[4]   expiry in seconds
-- ARGV[5]   the field of the partition's progress
-- ARGV[6]   the offset to start at
-- ARGV[7]   since: the slot from which on facts read from there are whole
--
-- Returns the partition's progress. Numbers stay strings: Lua would round them when it writes them.

begin_shard(KEYS[1], (present_slot(ARGV[1], ARGV[2], ARGV[3])))
if redis.call('HSETNX', KEYS[1], ARGV[5], ARGV[6]) == 1 then
  raise(KEYS[1], 'since', ARGV[7])
end
redis.call('EXPIRE', KEYS[1], ARGV[4])
return redis.call('HGET', KEYS[1], ARGV[5])
