#!lua flags=allow-oom
-- Read a shard for a tick: move the facts that the tick counts into the windows, and count. The script may run when
-- memory is full (allow-oom), because it only moves facts that are in Redis already.
--
-- KEYS[1..3]     as in begin_progress.lua
-- ARGV[1..4]     as in begin_progress.lua
-- ARGV[5]        the tick; empty to count what the windows contain, without moving facts
-- ARGV[6]        the tolerance of clocks (µs): the tick is counted from as_of + tolerance until the next tick closes
-- ARGV[7]        w: the number of windows
-- ARGV[8]        d: the number of designated times whose people are asked for
-- ARGV[9]        r: the number of counts by what was reported since an earlier tick
-- ARGV[10]       b: the number of counts of buckets
-- ARGV[11..10+2w] by window: its first slot, and rows (4 bytes each, big-endian)
-- the next 3r    by count: the first slot of the window, the earlier tick, and the row
-- the next 2b    by count: the number of the set, and the last slot of the bucket
-- the next 2d    by designated time: the time, and 1 if its set is sorted by stamp, else 0
-- the rest       the designated times whose lengths of visits are asked for
--
-- Returns {1 or 0, the counts by row, {field, value, field, value, …} of the hash, {seconds, microseconds} of the
-- server's clock, the members of each set of a designated time in one string, {member, length, …} of each, the r counts, the b
-- counts, by designated time the stamps of its members in the same order, separated by spaces (empty if it is not sorted)}.
-- Returns 0, and nothing that was asked for, if the windows lack facts of the tick, or have others.

local meta, prefix = KEYS[1], string.sub(KEYS[1], 1, -5)

-- Move the facts that the tick counts into the shard's windows: those stamped up to the tick. Return true if the windows
-- have these facts and no others. Return false if this is impossible, because the clock is not in the time in which the
-- tick is counted or a later slot is open, or if facts still wait, so that the script must be called again.
local function settle(tick)
  if redis.call('HEXISTS', meta, 'opened') == 0 then
    return false
  end
  local slot, now = find_present_slot(ARGV[1], ARGV[2], ARGV[3])
  if slot ~= tick + 1 or now < ARGV[2] + slot * ARGV[3] + ARGV[6] or adapt_opened(meta, slot) > tick then
    return false
  end
  local left = merge(meta, KEYS[2], tick, 2 * ARGV[4])
  return not left
end

-- Return, by row, the number of people last seen in the first slot or later. There is no upper bound: a person who came
-- again later still belongs to the window.
local function count_windows(last)
  local counts, begun = {}, redis.call('HEXISTS', meta, 'opened') == 1
  for i = 11, last, 2 do
    local start, rows = ARGV[i], ARGV[i + 1]
    for place = 1, #rows, 4 do
      local people = redis.call('ZCOUNT', prefix .. 'w:' .. struct.unpack('>I4', rows, place), start, '+inf')
      if begun and people == 0 then
        lose(meta)
      end
      counts[#counts + 1] = math.max(people - 1, 0)  -- without the mark
    end
  end
  return counts
end

-- Return, by question, the number of people in the window by reports that were stamped after the earlier tick's slot.
local function count_since(first, last)
  local counts, begun = {}, redis.call('HEXISTS', meta, 'opened') == 1
  for i = first, last, 3 do
    local start, key = tonumber(ARGV[i]), prefix .. 'r:' .. ARGV[i + 2]
    local found = redis.call('ZRANGEBYSCORE', key, '(' .. ARGV[i + 1], '+inf', 'WITHSCORES')
    if begun and found[#found - 1] ~= MARK then
      lose(meta)
    end
    local people, counted = 0, {}
    for j = 1, #found - 2, 2 do  -- without the mark, which is the last member
      local lead, person = struct.unpack('>i4c16', found[j])
      if found[j + 1] + lead >= start and not counted[person] then
        people, counted[person] = people + 1, true
      end
    end
    counts[#counts + 1] = people
  end
  return counts
end

-- Return, by question, the number of people who were reported in a bucket.
local function count_buckets(first, last)
  local counts, begun = {}, redis.call('HEXISTS', meta, 'opened') == 1
  for i = first, last, 2 do
    local key = prefix .. 'b:' .. ARGV[i]
    if begun then
      require_all(meta, {key})
    end
    counts[#counts + 1] = redis.call('ZCOUNT', key, ARGV[i + 1], ARGV[i + 1])
  end
  return counts
end

-- Return the members of the set of a designated time, and their scores if it is sorted.
local function read_time(name, is_sorted)
  local found = is_sorted and redis.call('ZRANGEBYSCORE', prefix .. name, '-inf', '+inf', 'WITHSCORES')
    or redis.call('SMEMBERS', prefix .. name)
  if #found == 0 and redis.call('HEXISTS', meta, name) == 1 then
    lose(meta)
  end
  return found
end

-- Return the people at designated times, in one string for each time, and their stamps where they are sorted by them.
local function read_people(first, last)
  local members, stamps = {}, {}
  for i = first, last, 2 do
    local is_sorted = ARGV[i + 1] == '1'
    local found, people, scores = read_time('t:' .. ARGV[i], is_sorted), {}, {}
    for j = 1, is_sorted and #found or 0, 2 do
      people[#people + 1], scores[#scores + 1] = found[j], found[j + 1]
    end
    members[#members + 1] = table.concat(is_sorted and people or found)
    stamps[#stamps + 1] = table.concat(scores, ' ')
  end
  return members, stamps
end

-- Return the lengths of visits at designated times.
local function read_lengths(first)
  local lengths = {}
  for i = first, #ARGV do
    lengths[#lengths + 1] = read_time('d:' .. ARGV[i], true)
  end
  return lengths
end

local counts, since, buckets, members, lengths, stamps = {}, {}, {}, {}, {}, {}
local settled = ARGV[5] == '' or settle(tonumber(ARGV[5]))
if settled then
  local windows = 10 + 2 * ARGV[7]
  local reports = windows + 3 * ARGV[9]
  local last = reports + 2 * ARGV[10]
  counts = count_windows(windows)
  since = count_since(windows + 1, reports)
  buckets = count_buckets(reports + 1, last)
  local people = last + 2 * ARGV[8]
  members, stamps = read_people(last + 1, people)
  lengths = read_lengths(people + 1)
end
return {settled and 1 or 0, counts, redis.call('HGETALL', meta), redis.call('TIME'), members, lengths, since, buckets, stamps}
