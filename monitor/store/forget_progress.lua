#!lua flags=allow-oom
-- Delete a shard's progress, after a key of facts was found to have another type, so that facts which the progress
-- claims are missing. Without progress, the shard claims nothing, and its facts are read from the input again.
--
-- KEYS[1]  meta: the shard's hash; unchanged if it is not a hash
-- ARGV[1]  the prefix of the fields of progress

if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if string.sub(field, 1, #ARGV[1]) == ARGV[1] then
      redis.call('HDEL', KEYS[1], field)
    end
  end
end
return 1
