#!lua flags=allow-oom
-- Run every command that the other scripts use, so that a missing permission is reported at start.
-- Otherwise it would be reported at the first use of the command, which for some commands is after a failure.
--
-- KEYS[1]  a key that nothing else uses, in a shard's slot; it does not exist afterwards, even if a command is refused
--
-- Returns 1, or the error of the first refused command. Redis 7 itself does not name that command.

local key = KEYS[1]
local commands = {
  {'TIME'}, {'TYPE', key},
  {'HGET', key, 'f'}, {'HGETALL', key}, {'HKEYS', key}, {'HDEL', key, 'f'},
  {'HEXISTS', key, 'f'}, {'EXISTS', key}, {'ZCOUNT', key, 0, '+inf'}, {'ZRANGEBYSCORE', key, '-inf', 0}, {'ZREM', key, 'm'},
  {'ZREMRANGEBYSCORE', key, '-inf', 0}, {'ZADD', key, 'XX', 0, 'm'},
  {'SMEMBERS', key}, {'EXPIRE', key, 1}, {'UNLINK', key},
  {'HSET', key, 'f', 0}, {'UNLINK', key}, {'HSETNX', key, 'f', 0}, {'UNLINK', key}, {'SADD', key, 'm'}, {'UNLINK', key},
}
for _, command in ipairs(commands) do
  local reply = redis.pcall(unpack(command))
  local refusal = type(reply) == 'table' and reply.err
  if refusal and (string.find(refusal, 'permissions', 1, true) or string.find(refusal, "can't run", 1, true)) then
    return redis.error_reply("NOPERM no permissions to run the '" .. string.lower(command[1]) .. "' command")
  elseif refusal then
    return redis.error_reply(refusal)
  end
end
return 1
