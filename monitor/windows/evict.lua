#!lua flags=allow-oom
-- Evict facts that are no longer counted, record the eviction in the shard's hash, and renew the expiry of the rest if
-- an eighth of it has passed. (Renewing it at each tick would write a line to the append-only file for each key.)
--
-- KEYS[1]            meta: the shard's hash
-- KEYS[2]            the waiting facts
-- KEYS[3..2+w]       the sorted sets of its watched rows
-- KEYS[3+w..2+w+d]   sets of designated times to delete, of people and of lengths
-- KEYS[3+w+d..]      the sets of designated times to keep, and the hash of the leaves
-- ARGV[1]            expiry of meta in seconds; facts expire after twice this time, so later than the progress that
--                    claims them
-- ARGV[2]            w: the number of sorted sets
-- ARGV[3]            d: the number of sets to delete
-- ARGV[4]            trimmed: facts about slots before this one are removed
-- ARGV[5]            dropped: the latest designated time to delete; missing if d = 0
--
-- `trimmed` and `dropped` are raised (never lowered) before anything is removed. An error stops a script, so no fact is
-- ever missing without a record of its eviction. The script also runs when memory is full, because it frees memory.

-- Undo the last split of a row with n splits: move the people of the children of node n to node n.
local function join_leaves(prefix, row, n, expiry)
  local to = leaf_key(prefix, row, n)
  for leaf = 4 * n - 2, 4 * n + 1 do
    local moved, people = {}, redis.call('ZRANGEBYSCORE', leaf_key(prefix, row, leaf), '-inf', '+inf', 'WITHSCORES')
    for i = 1, #people, 2 do
      moved[i], moved[i + 1] = people[i + 1], people[i]
    end
    for i = 1, #moved, 2 * PORTION do
      redis.call('ZADD', to, unpack(moved, i, math.min(i + 2 * PORTION - 1, #moved)))
    end
  end
  redis.call('EXPIRE', to, expiry)
  redis.call('HSET', prefix .. 'leaves', row, n - 1)
  for leaf = 4 * n - 2, 4 * n + 1 do
    redis.call('UNLINK', leaf_key(prefix, row, leaf))
  end
end

local function count_children(prefix, row, n)
  local people = 0
  for leaf = 4 * n - 2, 4 * n + 1 do
    people = people + redis.call('ZCARD', leaf_key(prefix, row, leaf))
  end
  return people
end

-- Undo the last splits of a row with n splits, while the people of the four leaves fit well into one. If a leaf were
-- nearly full after that, it would soon be split again.
local function join_small_leaves(prefix, row, n, expiry)
  while n > 0 and count_children(prefix, row, n) <= FILL do
    join_leaves(prefix, row, n, expiry)
    n = n - 1
  end
  if n == 0 then
    redis.call('HDEL', prefix .. 'leaves', row)
  end
end

-- Evict from the rows with several leaves, and join leaves if few people are left.
local function evict_leaves(prefix, bound, expiry, renews)
  local directory = redis.call('HGETALL', prefix .. 'leaves')
  for i = 1, #directory, 2 do
    local row, n = directory[i], tonumber(directory[i + 1])
    for leaf = n + 1, 4 * n + 1 do
      local key = leaf_key(prefix, row, leaf)
      redis.call('ZREMRANGEBYSCORE', key, '-inf', bound)
      if renews then
        redis.call('EXPIRE', key, expiry)
      end
    end
    join_small_leaves(prefix, row, n, expiry)
  end
end

local windows, dropped, expiry = tonumber(ARGV[2]), tonumber(ARGV[3]), 2 * ARGV[1]
local renews = was_renewed_before(KEYS[1], expiry / 8)

raise(KEYS[1], 'trimmed', ARGV[4])
if dropped > 0 then
  raise(KEYS[1], 'dropped', ARGV[5])
end
for i = 3, 2 + windows do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', '(' .. ARGV[4])
end
evict_leaves(string.sub(KEYS[1], 1, -5), '(' .. ARGV[4], expiry, renews)
for i = 3 + windows, 2 + windows + dropped do
  redis.call('UNLINK', KEYS[i])
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
if renews then
  for i = 2, #KEYS do  -- the last one is the hash of the leaves
    redis.call('EXPIRE', KEYS[i], expiry)
  end
  set_number(KEYS[1], 'renewed', redis.call('TIME')[1])
end
return 1
