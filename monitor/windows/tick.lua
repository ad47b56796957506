#!lua flags=allow-oom
-- Read a shard for a tick: move the facts that it counts into the windows, and count them. The script needs hardly any
-- memory (allow-oom), because it only moves facts that are in Redis already.
--
-- KEYS[1..3]  as in write.lua
-- ARGV[1..7]  as in settle.lua
-- ARGV[8..]   the windows, as in counting.lua
--
-- Returns as count.lua, with 0 and no counts if the windows do not have the facts of the tick, or others too.

return read_shard(KEYS[1], settle(KEYS[1], KEYS[2]), 8)
