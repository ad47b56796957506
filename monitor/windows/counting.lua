-- The functions of the scripts that count. This file is inserted before their text.

-- Count the people of watched rows. `at`: the index of the first of the arguments, which are pairs of a first slot and
-- rows (4 bytes each, big-endian). Return, by row, the number of people last seen in the first slot or later. There is
-- no upper bound: a person who came again later still belongs to the window.
local function count_windows(prefix, at)
  local counts = {}
  for i = at, #ARGV, 2 do
    local start, rows = ARGV[i], ARGV[i + 1]
    for place = 1, #rows, 4 do
      counts[#counts + 1] = redis.call('ZCOUNT', prefix .. 'w:' .. struct.unpack('>I4', rows, place), start, '+inf')
    end
  end
  return counts
end

-- Return {1 or 0, the counts, the fields and values of the shard's hash, the server's clock}. Count only if `settled`.
local function read_shard(meta, settled, at)
  local counts = settled and count_windows(string.sub(meta, 1, -5), at) or {}
  return {settled and 1 or 0, counts, redis.call('HGETALL', meta), redis.call('TIME')}
end
