#!lua flags=no-writes
-- Measure some keys of a shard. MEMORY USAGE takes the same time for a small and a large key.
--
-- KEYS[1]  leaves: the number of splits by row
-- KEYS[2…] other keys, which need not exist
-- ARGV[1]  how many leaves of a row to measure at most
-- ARGV[2…] rows
--
-- Returns the bytes of each key, then those of each row: of all its leaves, estimated if it has more than the limit.

local prefix, most, sizes = string.sub(KEYS[1], 1, -7), tonumber(ARGV[1]), {}
for _, key in ipairs(KEYS) do
  sizes[#sizes + 1] = redis.call('MEMORY', 'USAGE', key) or 0
end
for i = 2, #ARGV do
  local n, bytes = tonumber(redis.call('HGET', KEYS[1], ARGV[i]) or 0), 0
  local leaves = 3 * n + 1
  local measured = math.min(leaves, most)
  for part = 0, measured - 1 do
    local leaf = n + 1 + math.floor(part * leaves / measured)
    bytes = bytes + (redis.call('MEMORY', 'USAGE', leaf_key(prefix, ARGV[i], leaf)) or 0)
  end
  sizes[#sizes + 1] = math.floor(bytes * leaves / measured)
end
return sizes
