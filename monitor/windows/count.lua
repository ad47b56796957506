#!lua flags=no-writes
-- Count the people of watched rows, as the last part of the MULTI that reads for a tick.
--
-- KEYS[1]  meta: the shard's hash
-- KEYS[2]  the waiting facts
-- KEYS[3]  the leaves
-- ARGV     first slot, rows (4 bytes each, big-endian), first slot, rows, …
--
-- Returns, by row, the number of people last seen in the first slot or later. There is no upper bound: a person who came
-- again later still belongs to the window.

local prefix, counts = string.sub(KEYS[1], 1, -5), {}
local split = redis.call('TYPE', prefix .. 'leaves').ok ~= 'none'
for i = 1, #ARGV, 2 do
  local start, rows = ARGV[i], ARGV[i + 1]
  for at = 1, #rows, 4 do
    local row = tostring(struct.unpack('>I4', rows, at))
    local n, people = split and tonumber(redis.call('HGET', prefix .. 'leaves', row) or 0) or 0, 0
    for leaf = n + 1, 4 * n + 1 do
      people = people + redis.call('ZCOUNT', leaf_key(prefix, row, leaf), start, '+inf')
    end
    counts[#counts + 1] = people
  end
end
return counts
