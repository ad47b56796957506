#!lua flags=allow-oom
-- Drop a shard's progress: a key of another type was found where facts belong, so facts that progress claims are gone.
-- Without progress nothing is claimed, and all is read anew from the input.
--
-- KEYS[1]  meta: the shard's hash; left alone if it is none
-- ARGV[1]  what the fields of progress begin with

if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, #ARGV[1]) == ARGV[1] then
      redis.call('HDEL', KEYS[1], field)
    end
  end
end
return 1
