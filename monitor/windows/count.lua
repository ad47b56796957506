#!lua flags=no-writes
-- Read a shard without a tick, so without moving facts.
--
-- KEYS[1]  meta: the shard's hash
-- KEYS[2]  the waiting facts
-- ARGV     the windows, as in counting.lua
--
-- Returns {1, the counts, {field, value, field, value, …} of the hash, {seconds, microseconds} of the server's clock}.

return read_shard(KEYS[1], true, 1)
