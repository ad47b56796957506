#!lua flags=no-writes
-- Measure some keys of a shard. MEMORY USAGE takes the same time for a small and a large key.
--
-- KEYS  the keys, which need not exist
--
-- Returns the bytes of each key.

local sizes = {}
for i, key in ipairs(KEYS) do
  sizes[i] = redis.call('MEMORY', 'USAGE', key) or 0
end
return sizes
