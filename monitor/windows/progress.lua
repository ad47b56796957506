-- The last command of a write's MULTI: let progress follow the data that the commands before it wrote.
--
-- A command that fails inside MULTI does not stop the ones behind it. So every key that they wrote to is looked at
-- first: under a value of another type their data is missing, and progress over missing data is a false "safe".
--
-- KEYS[1]          meta: the shard's hash
-- KEYS[2..1+w]     the sorted sets that the transaction wrote to
-- KEYS[2+w..]      the sets that it wrote to
-- ARGV[1]          expiry of meta in seconds, renewed on all of these: facts have twice as long, so that none is gone
--                  before the progress that claims it
-- ARGV[2]          w: how many sorted sets
-- ARGV[3..]        by span: the field of the partition's progress, start, end
--
-- Where progress has reached a span's start, it becomes max(progress, end); else it stays, and so it does without any.
-- Returns the present progress by span, -1 where there is none; an error if a key has another type.

local windows = tonumber(ARGV[2])
for i = 2, #KEYS do
  local expected = i < 2 + windows and 'zset' or 'set'
  if redis.call('TYPE', KEYS[i]).ok ~= expected then
    return redis.error_reply('WRONGTYPE a key of this shard is no ' .. expected)
  end
end

local reached = {}
for i = 3, #ARGV, 3 do
  local present = redis.call('HGET', KEYS[1], ARGV[i]) or '-1'
  if tonumber(present) >= tonumber(ARGV[i + 1]) and tonumber(present) < tonumber(ARGV[i + 2]) then
    present = ARGV[i + 2]
    redis.call('HSET', KEYS[1], ARGV[i], present)
  end
  reached[#reached + 1] = present
end
redis.call('EXPIRE', KEYS[1], ARGV[1])
for i = 2, #KEYS do
  redis.call('EXPIRE', KEYS[i], 2 * ARGV[1])
end
return reached
