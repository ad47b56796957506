#!lua flags=allow-oom
-- Move the facts that a tick counts into a shard's windows. This needs hardly any memory (see tick.lua).
--
-- KEYS[1..2]  as in write.lua
-- ARGV[1..4]  as in write.lua
-- ARGV[5]     the tick
-- ARGV[6]     the tolerance of clocks (µs): the tick is counted from as_of + tolerance until the next tick closes
-- ARGV[7]     about how many waiting facts to move
--
-- Returns 1 if the windows have the facts of the tick and no others, else 0.

return settle(KEYS[1], KEYS[2]) and 1 or 0
