-- Functions that several scripts use. This file is inserted before their text.
--
-- A shard's hash determines which facts may be in its windows. Facts stamped up to the slot `opened` are there, or may
-- be moved there. Later facts wait in a sorted set, ordered by stamp. `shown` is the latest stamp of any fact in the
-- windows. Numbers with more than 14 digits are formatted with %.0f, because Lua would round them.

-- Bytes before the facts of a waiting member: stamp (8 bytes), then s (seen), r (reported), b (bucketed), p (present),
-- q (stamped) or d (stays)
local HEADER = 9
local SEEN, PRESENT, STAY = 20, 28, 32  -- bytes of a packed fact (monitor/store/packing.py)
local PORTION = 2000      -- facts per command
local MERGED = 50000      -- facts after which a script stops merging, so that the server is busy only briefly

local NOTHING_SHOWN = -2 ^ 52  -- as monitor.kinds.facts_and_questions.COMPLETE_FROM_START

local MARK = ''           -- the member of each window, of the reports and the buckets of each row, and of the waiting
                          -- facts that is not a fact; its score is +inf

-- Stop if a key that every begun shard has is missing: the server lost a part of the shard, as when a move to another
-- server was broken off. Delete the shard's hash first, with its progress, so that nobody relies on the rest. The facts
-- are then read from the input again.
local function lose(meta)
  redis.call('UNLINK', meta)
  error(redis.error_reply('LOST a key of this shard is missing'))
end

local function require_all(meta, keys)
  for i = 1, #keys, PORTION do
    local last = math.min(i + PORTION - 1, #keys)
    if redis.call('EXISTS', unpack(keys, i, last)) < last - i + 1 then
      lose(meta)
    end
  end
end

-- Return the present slot and instant (µs), by the server's clock or, if `now` is not empty, by a replay's clock.
local function find_present_slot(now, origin, length)
  if now == '' then
    local time = redis.call('TIME')
    now = time[1] * 1000000 + time[2]
  end
  return math.floor((now - origin) / length), now + 0
end

local function get_number(meta, field)
  local value = redis.call('HGET', meta, field)
  return value and tonumber(value)
end

local function set_number(meta, field, value)
  redis.call('HSET', meta, field, string.format('%.0f', value))
end

-- Adapt `opened` to the present slot, and return it. If it is ahead of the clock (after a failover from a host with a
-- fast clock), lower it as far as the windows allow. Raise it to the last closed slot if it is lower.
local function adapt_opened(meta, slot)
  local opened = get_number(meta, 'opened')
  local may = math.max(opened > slot and get_number(meta, 'shown') or opened, slot - 1)
  if may ~= opened then
    set_number(meta, 'opened', may)
  end
  return may
end

local function raise_shown(meta, stamp)
  if get_number(meta, 'shown') < stamp then
    set_number(meta, 'shown', stamp)
  end
end

-- Return whether the last renewal of all expiries was more than some seconds ago. Evictions renew them. Every key was
-- created or renewed after the instant `renewed`, because a new key gets its expiry at once.
local function was_renewed_before(meta, seconds)
  local renewed = get_number(meta, 'renewed')
  local passed = renewed and redis.call('TIME')[1] - renewed
  return not passed or passed < 0 or passed > seconds
end

-- Add facts of a row to its window, or to its buckets: there, a member is one person in one bucket. `slots`: the last slot
-- as text, by its difference to the stamp (4 bytes).
local function add_people(key, count, blob, at, slots, bucketed)
  for first = 0, count - 1, PORTION do
    local size = math.min(PORTION, count - first)
    local people = {struct.unpack(string.rep('c4c16', size), blob, at + SEEN * first)}
    for i = 1, 2 * size, 2 do
      people[i] = slots[people[i]]
      people[i + 1] = bucketed and people[i] .. people[i + 1] or people[i + 1]
    end
    redis.call('ZADD', key, 'GT', unpack(people, 1, 2 * size))  -- the last element is a position
  end
end

-- Add facts to the reports of a row: by lead (last slot minus stamp) and person, the latest stamp. So a count since any
-- tick, in any window, is exact: an earlier report with the same lead is about an earlier slot, and decides no count.
local function add_reports(key, count, blob, at, stamp)
  for first = 0, count - 1, PORTION do
    local size, arguments = math.min(PORTION, count - first), {}
    local members = {struct.unpack(string.rep('c20', size), blob, at + SEEN * first)}
    for i = 1, size do
      arguments[2 * i - 1], arguments[2 * i] = stamp, members[i]
    end
    redis.call('ZADD', key, 'GT', unpack(arguments, 1, 2 * size))
  end
end

-- Return the keys of the windows, reports or buckets in a block, and the number of facts of each. They begin with the prefix.
local function read_groups(prefix, blob, from)
  local keys, counts = {}, {}
  for group = 1, struct.unpack('>I4', blob, from) do
    local row, count = struct.unpack('>I4I4', blob, from - 4 + 8 * group)
    keys[group], counts[group] = prefix .. row, count
  end
  return keys, counts
end

-- Add packed facts to the windows (s), the reports (r) or the buckets (b) of rows, beginning at a place in the blob.
local function add_seen(meta, prefix, kind, stamp, blob, from, expiry)
  local keys, counts = read_groups(prefix .. (kind == 's' and 'w:' or kind .. ':'), blob, from)
  require_all(meta, keys)
  local slots = setmetatable({}, {__index = function(slots, lead)
    slots[lead] = string.format('%.0f', stamp + struct.unpack('>i4', lead))
    return slots[lead]
  end})
  local renew, at = was_renewed_before(meta, expiry / 2), from + 4 + 8 * #keys
  for i, key in ipairs(keys) do
    if kind == 'r' then
      add_reports(key, counts[i], blob, at, string.format('%.0f', stamp))
    else
      add_people(key, counts[i], blob, at, slots, kind == 'b')
    end
    at = at + SEEN * counts[i]
    if renew then
      redis.call('EXPIRE', key, expiry)
    end
  end
end

-- Return the key of a set of a designated time, before facts are added to it. The shard's hash names each set that exists,
-- so one that it names must not be missing.
local function name_set(meta, prefix, name)
  if redis.call('HSETNX', meta, name, 1) == 0 then
    require_all(meta, {prefix .. name})
  end
  return prefix .. name
end

-- Add packed facts, sorted by time, to the sets of designated times: people (p), people by stamp (q), or the lengths of
-- visits (d). Of several stamps or lengths, the largest remains. Skip evicted times, because no tick counts them.
local function add_timed(meta, prefix, kind, stamp, blob, from, expiry)
  local evicted_until = get_number(meta, 'times_evicted_until')
  local are_people, instant, arguments, count, i = kind ~= 'd', nil, {}, 0, from
  local size, form = are_people and PRESENT or STAY, are_people and '>i8c20' or '>i8I4c20'
  local score = string.format('%.0f', stamp)
  local function flush()
    if count > 0 and not (evicted_until and instant <= evicted_until) then
      local key = name_set(meta, prefix, (are_people and 't:' or 'd:') .. string.format('%.0f', instant))
      if kind == 'p' then
        redis.call('SADD', key, unpack(arguments, 1, count))
      else
        redis.call('ZADD', key, 'GT', unpack(arguments, 1, 2 * count))
      end
      redis.call('EXPIRE', key, expiry)
    end
    count = 0
  end
  while i < #blob do
    local at, first, second = struct.unpack(form, blob, i)
    if at ~= instant or count == PORTION then
      flush()
      instant = at
    end
    if kind == 'p' then
      arguments[count + 1] = first
    elseif kind == 'q' then
      arguments[2 * count + 1], arguments[2 * count + 2] = score, first
    else
      arguments[2 * count + 1], arguments[2 * count + 2] = first, second
    end
    count, i = count + 1, i + size
  end
  flush()
end

local function add(meta, kind, stamp, blob, from, expiry)
  raise_shown(meta, stamp)
  local prefix = string.sub(meta, 1, -5)
  if kind == 's' or kind == 'r' or kind == 'b' then
    add_seen(meta, prefix, kind, stamp, blob, from, expiry)
  else
    add_timed(meta, prefix, kind, stamp, blob, from, expiry)
  end
end

-- Move waiting facts stamped up to a slot into the windows, the earliest first; return whether any are left. Facts are
-- added before they are removed, because an error stops a script without undoing its changes.
local function merge(meta, waiting, slot, expiry)
  require_all(meta, {waiting})
  local merged = 0
  while merged < MERGED do
    local blob = redis.call('ZRANGEBYSCORE', waiting, '-inf', slot, 'LIMIT', 0, 1)[1]
    if not blob then
      return false
    end
    local stamp, kind = struct.unpack('>i8c1', blob)
    add(meta, kind, stamp, blob, HEADER + 1, expiry)
    redis.call('ZREM', waiting, blob)
    merged = merged + #blob / PRESENT
  end
  return redis.call('ZCOUNT', waiting, '-inf', slot) > 0
end

-- Initialize a shard without `opened`. It is emptied first, because nothing shows which facts its keys contain. Then the
-- waiting facts, every window, and the reports and buckets of every row get their mark, so that one that is missing later is noticed.
-- `windows`: how many of the keys from KEYS[4] on are windows, reports or buckets.
local function begin_shard(meta, slot, windows, expiry)
  if redis.call('HEXISTS', meta, 'opened') == 1 then
    return
  end
  for i = 2, #KEYS do
    redis.call('UNLINK', KEYS[i])
    if i == 2 or (i > 3 and i <= 3 + windows) then
      redis.call('ZADD', KEYS[i], '+inf', MARK)
      redis.call('EXPIRE', KEYS[i], expiry)
    end
  end
  set_number(meta, 'opened', slot - 1)
  set_number(meta, 'shown', NOTHING_SHOWN)
  set_number(meta, 'renewed', redis.call('TIME')[1])
end

local function raise(meta, field, value)
  local present = redis.call('HGET', meta, field)
  if not present or tonumber(present) < tonumber(value) then
    redis.call('HSET', meta, field, value)
  end
end
