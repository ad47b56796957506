#!lua flags=allow-oom
-- Read a shard for a tick: move the facts that the tick counts into the windows, and count. The script may run when
-- memory is full (allow-oom), because it only moves facts that are in Redis already.
--
-- KEYS[1..2]  as in write.lua
-- ARGV[1..7]  as in settle.lua
-- ARGV[8..]   the windows, as in counting.lua
--
-- Returns the same as count.lua, but 0 and no counts if the windows lack facts of the tick, or have others.

return read_shard(KEYS[1], settle(KEYS[1], KEYS[2]), 8)
