-- Functions that several scripts use. This file is inserted before their text, after leaves.lua.
--
-- A shard's hash determines which facts may be in its windows. Facts stamped up to the slot `opened` are there, or may
-- be moved there. Later facts wait in a sorted set, ordered by stamp. `shown` is the latest stamp of any fact in the
-- windows. Numbers with more than 14 digits are formatted with %.0f, because Lua would round them.

-- Bytes before the facts of a waiting member: stamp (8 bytes), then s (seen), p (present) or d (stays)
local HEADER = 9
local PERSON, PRESENT, STAY = 16, 28, 32  -- bytes of a person's hash, and of packed facts (monitor/windows/packing.py)
local PORTION = 2000      -- facts per command
local CHUNK = 64          -- people per command that adds to a leaf
local FULL, FILL = 112, 64  -- most people in a leaf that is not split, and in one to which leaves are joined
local MERGED = 50000      -- facts after which a script stops merging, so that the server is busy only briefly

local NOTHING_SHOWN = -2 ^ 52  -- as monitor.windows.facts.COMPLETE_FROM_START

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

-- Return the first node of the level that contains the next node to split (n splits have been made), the first node of
-- the level below, and how many of the 2^32 values of a hash's first 32 bits belong to each node of the lower level.
local function find_levels(n)
  local first, below, share = 1, 2, 2 ^ 30
  while below <= n + 1 do
    first, below, share = below, 4 * below - 2, share / 4
  end
  return first, below, share
end

-- Split node n + 1, a leaf of a row with n splits. People are added to their new leaves before the old one is deleted,
-- because an error stops a script without undoing its changes.
local function split_leaf(prefix, row, n, expiry)
  local from, _, _, share = leaf_key(prefix, row, n + 1), find_levels(n)
  local place, unit, parts = 1, share / 2 ^ 24, {{}, {}, {}, {}}
  while unit < 1 do
    place, unit = place + 1, 256 * unit
  end
  local people = redis.call('ZRANGEBYSCORE', from, '-inf', '+inf', 'WITHSCORES')
  for i = 1, #people, 2 do
    local byte = string.byte(people[i], place)
    local part = parts[(byte - byte % unit) / unit % 4 + 1]
    local size = #part
    part[size + 1], part[size + 2] = people[i + 1], people[i]
  end
  for child, part in ipairs(parts) do
    local key = leaf_key(prefix, row, 4 * n + 1 + child)
    for i = 1, #part, 2 * PORTION do
      redis.call('ZADD', key, unpack(part, i, math.min(i + 2 * PORTION - 1, #part)))
    end
    redis.call('EXPIRE', key, expiry)
  end
  redis.call('HSET', prefix .. 'leaves', row, n + 1)
  redis.call('UNLINK', from)
end

-- Return how many hashes from hash i on belong to one leaf (at most CHUNK), and this leaf. `hashes`: the first 32 bits
-- of each person's hash, sorted.
local function find_run(hashes, i, n, first, below, share)
  local part = math.floor(hashes[i] / share)
  local leaf = below + part
  if leaf > 4 * n + 1 then
    part, share = math.floor(part / 4), 4 * share
    leaf = first + part
  end
  local start, count, most = part * share, 1, math.min(CHUNK, #hashes - i)  -- the last element is not a hash
  while count < most and hashes[i + count] >= start and hashes[i + count] < start + share do
    count = count + 1
  end
  return count, leaf
end

-- Add people to a leaf; return how many people it then has, or 0 if nobody is new. `renew`: also renew its expiry.
local function add_to_leaf(key, blob, at, format, count, renew, expiry)
  local people = {struct.unpack(format, blob, at)}  -- its last element is a position, which the next line leaves out
  local added = redis.call('ZADD', key, 'GT', unpack(people, 1, 2 * count))
  local size = added > 0 and redis.call('ZCARD', key) or 0
  if renew or (added > 0 and size == added) then
    redis.call('EXPIRE', key, expiry)
  end
  return size
end

-- Return whether the last renewal of all expiries was more than some seconds ago. Evictions renew them. Every key was
-- created or renewed after the instant `renewed`, because a new key gets its expiry at once.
local function was_renewed_before(meta, seconds)
  local renewed = get_number(meta, 'renewed')
  local passed = renewed and redis.call('TIME')[1] - renewed
  return not passed or passed < 0 or passed > seconds
end

-- Add a row's facts to its leaves, and return its number of splits. `group`: the number of facts, and the positions in
-- the blob at which their hashes and the facts begin.
local function add_row(prefix, row, n, blob, group, formats, renew, expiry)
  local i, hashes = 1, nil
  local first, below, share = find_levels(n)
  while i <= group.count do
    local count, leaf = math.min(CHUNK, group.count - i + 1), 1
    if n > 0 then
      hashes = hashes or {struct.unpack(string.rep('>I4', group.count), blob, group.hashes)}
      count, leaf = find_run(hashes, i, n, first, below, share)
    end
    local at = group.at + (i - 1) * formats.size
    local people = add_to_leaf(leaf_key(prefix, row, leaf), blob, at, formats[count], count, renew, expiry)
    i = i + count
    if people > FULL then
      split_leaf(prefix, row, n, expiry)  -- one split per ZADD, which adds at most CHUNK people
      n = n + 1
      first, below, share = find_levels(n)
    end
  end
  return n
end

-- Add packed facts to the windows, beginning at a place in the blob.
local function add_seen(meta, prefix, blob, from, expiry)
  local digits, facts, groups = struct.unpack('>I4I4I4', blob, from)
  local directory, renew = prefix .. 'leaves', was_renewed_before(meta, expiry / 2)
  local split = redis.call('TYPE', directory).ok ~= 'none'
  -- A format is created at its first use, because a write of few facts needs few of them.
  local formats = setmetatable({size = digits + PERSON}, {__index = function(formats, count)
    formats[count] = string.rep('c' .. digits .. 'c' .. PERSON, count)
    return formats[count]
  end})
  local header = from + 12
  local group = {hashes = header + 8 * groups}
  group.at = group.hashes + 4 * facts
  for _ = 1, groups do
    local row, count = struct.unpack('>I4I4', blob, header)
    row = tostring(row)
    local n = split and tonumber(redis.call('HGET', directory, row) or 0) or 0
    group.count = count
    split = add_row(prefix, row, n, blob, group, formats, renew, expiry) > 0 or split
    header, group.hashes, group.at = header + 8, group.hashes + 4 * count, group.at + formats.size * count
  end
  redis.call('EXPIRE', directory, expiry)
end

-- Add packed facts, sorted by time, to the sets of designated times. Skip evicted times, because no tick counts them.
local function add_present(prefix, dropped, blob, from, expiry)
  local instant, arguments, count, i = nil, {}, 0, from
  local function flush()
    if count > 0 and not (dropped and instant <= dropped) then
      local key = prefix .. 't:' .. string.format('%.0f', instant)
      redis.call('SADD', key, unpack(arguments, 1, count))
      redis.call('EXPIRE', key, expiry)
    end
    count = 0
  end
  while i < #blob do
    local at, member = struct.unpack('>i8c20', blob, i)
    if at ~= instant or count == PORTION then
      flush()
      instant = at
    end
    arguments[count + 1] = member
    count, i = count + 1, i + PRESENT
  end
  flush()
end

-- Add packed visits, sorted by time, to the lengths at designated times. Of several lengths, the longest remains.
local function add_stays(prefix, dropped, blob, from, expiry)
  local instant, arguments, count, i = nil, {}, 0, from
  local function flush()
    if count > 0 and not (dropped and instant <= dropped) then
      local key = prefix .. 'd:' .. string.format('%.0f', instant)
      redis.call('ZADD', key, 'GT', unpack(arguments, 1, 2 * count))
      redis.call('EXPIRE', key, expiry)
    end
    count = 0
  end
  while i < #blob do
    local at, length, member = struct.unpack('>i8I4c20', blob, i)
    if at ~= instant or count == PORTION then
      flush()
      instant = at
    end
    arguments[2 * count + 1], arguments[2 * count + 2] = length, member
    count, i = count + 1, i + STAY
  end
  flush()
end

local function add(meta, kind, stamp, blob, from, expiry)
  raise_shown(meta, stamp)
  local prefix = string.sub(meta, 1, -5)
  if kind == 's' then
    add_seen(meta, prefix, blob, from, expiry)
  elseif kind == 'd' then
    add_stays(prefix, get_number(meta, 'dropped'), blob, from, expiry)
  else
    add_present(prefix, get_number(meta, 'dropped'), blob, from, expiry)
  end
end

-- Move waiting facts stamped up to a slot into the windows, the earliest first; return whether any are left. Facts are
-- added before they are removed, because an error stops a script without undoing its changes.
local function merge(meta, waiting, slot, expiry, most)
  local merged = 0
  while merged < (most or MERGED) do
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

local function unlink_leaves(prefix)
  local directory = redis.call('HGETALL', prefix .. 'leaves')
  for i = 1, #directory, 2 do
    local n = tonumber(directory[i + 1])
    for leaf = n + 1, 4 * n + 1 do
      redis.call('UNLINK', leaf_key(prefix, directory[i], leaf))
    end
  end
  redis.call('UNLINK', prefix .. 'leaves')
end

-- Initialize a shard without `opened`. Its windows are emptied first, because nothing shows which facts they contain.
local function begin_shard(meta, slot)
  if redis.call('HEXISTS', meta, 'opened') == 0 then
    unlink_leaves(string.sub(meta, 1, -5))
    for i = 2, #KEYS do
      redis.call('UNLINK', KEYS[i])
    end
    set_number(meta, 'opened', slot - 1)
    set_number(meta, 'shown', NOTHING_SHOWN)
    set_number(meta, 'renewed', redis.call('TIME')[1])
  end
end

local function raise(meta, field, value)
  local present = redis.call('HGET', meta, field)
  if not present or tonumber(present) < tonumber(value) then
    redis.call('HSET', meta, field, value)
  end
end
