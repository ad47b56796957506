#!lua flags=no-writes
-- Read a shard's progress and bounds, and the time.
--
-- KEYS[1]  meta: the shard's hash
--
-- Returns {field, value, field, value, …} of the hash, and {seconds, microseconds} of the server's clock.

return {redis.call('HGETALL', KEYS[1]), redis.call('TIME')}
