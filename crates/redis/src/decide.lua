-- Every algorithm and every verb, for a batch of requests. Above this text stand two lines that set
-- `now_us`, the time, and `grace_ms`, by which keys outlive their use.
--
-- KEYS: one for each limit, in the order of the blocks.
-- ARGV: the number of requests; for each its verb and its number of limits, and for each limit a block:
--   kind, tick, a, b, c   the policy, see plan.rs
--   want, least, share    units: take `want`, or as many as fit in 1/share of what is left, but no fewer
--                         than `least`; less than `least` is a denial
--   stamp                 of a refund: when (which window) the units were charged
-- Replies: the time; for each request 1 if it is admitted, else 0; for each limit 1 if it admits by
-- itself, 1 if its state could not be read and was replaced by a full one, the units charged or given
-- back, and what it holds: see state.rs.
--
-- All numbers are whole and at most 2^53 - 1, where doubles are exact; plan.rs refuses what is not.
-- Nothing is repeated more often than there are limits, and segments in a limit (64 at most).

local MOST = 9007199254740991
local GCRA, FIXED, FROM_FIRST, SLIDING, SEGMENTED = 1, 2, 3, 4, 5
local fmod, min, max = math.fmod, math.min, math.max
local find, gmatch, format, concat = string.find, string.gmatch, string.format, table.concat

-- Whole quotient. `%` and `floor(a / b)` would round first.
local function div(a, b)
  return (a - fmod(a, b)) / b
end

-- What the key stores, as numbers; nil if it is unused. And whether it is no state of ours.
local function read(key, fields)
  local text = redis.pcall('GET', key)
  if not text then return nil, false end
  if type(text) ~= 'string' then
    if not find(text.err, '^WRONGTYPE') then error(text.err) end
    return nil, true
  end
  if not find(text, '^[%d ]+$') then return nil, true end
  local stored = {}
  for number in gmatch(text, '%d+') do
    local value = tonumber(number)
    if value > MOST then return nil, true end
    stored[#stored + 1] = value
  end
  if #stored ~= fields then return nil, true end
  return stored, false
end

-- A limit as it stands now: what it `holds`, the units that are `used`, of `most`.
--   GCRA        a tick drains `a` parts, a unit has `b`, the capacity is `c`; holds the debt in parts
--   FIXED       window a, limit b;              holds the window's number, count
--   FROM_FIRST  window a, limit b;              holds the start, count
--   SLIDING     window a, limit b, rounding c;  holds the window's number, previous, current
--   SEGMENTED   segment a, limit b, segments c; holds the segment's number, counts from the newest on
local function look(key, at)
  local kind, tick = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local a, b, c = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local fields = kind == SEGMENTED and c + 1 or kind == SLIDING and 3 or 2
  local stored, broken = read(key, fields)
  local now = div(now_us, tick)
  local limit = { key = key, kind = kind, tick = tick, a = a, b = b, c = c, now = now, broken = broken }
  local window = kind == FROM_FIRST and now or div(now, a)
  limit.window = window

  if kind == GCRA then
    local debt = broken and c or 0
    if stored and stored[1] >= now then debt = min((stored[1] - now) * a + stored[2], MOST) end
    limit.held = { debt }
    limit.fits = debt <= c
    limit.room = div(max(c - debt, 0), b)
    return limit
  end

  local held
  if broken then
    held = { window, b }
    if kind == SLIDING then held = { window, 0, b } end
    for age = 1, kind == SEGMENTED and c - 1 or 0 do held[age + 2] = 0 end
  elseif kind == FIXED then
    held = stored and stored[1] >= window and stored or { window, 0 }
  elseif kind == FROM_FIRST then
    held = stored and stored[2] > 0 and now < stored[1] + a and stored or { now, 0 }
  elseif kind == SLIDING then
    held = { window, 0, 0 }
    if stored and stored[1] >= window then held = stored
    elseif stored and stored[1] == window - 1 then held[2] = stored[3] end
  else
    held = stored
    if not stored or stored[1] < window then
      held = { window }
      local passed = stored and window - stored[1] or c
      for age = 0, c - 1 do held[age + 2] = age >= passed and stored[age - passed + 2] or 0 end
    end
  end

  local used = held[2]
  if kind == SLIDING then
    local into = held[1] > window and 0 or now - window * a
    if c == 0 then used = div(held[2] * (a - into) + a - 1, a)
    elseif c == 1 then used = div(held[2] * (a - into), a) end
    used = used + held[3]
  elseif kind == SEGMENTED then
    for age = 1, c - 1 do used = used + held[age + 2] end
  end
  limit.held = held
  limit.fits = used <= b
  limit.room = max(b - used, 0)
  return limit
end

-- Where the count is that grows.
local function newest(limit)
  return limit.kind == SLIDING and 3 or 2
end

-- Charges units that are known to fit.
local function charge(limit, units)
  local at = limit.kind == GCRA and 1 or newest(limit)
  limit.held[at] = limit.held[at] + units * (limit.kind == GCRA and limit.b or 1)
end

-- Gives back what has not drained since it was charged; returns how many whole units.
local function give_back(limit, units, stamp)
  local held = limit.held
  if limit.kind == GCRA then
    -- A debt that was cut off: the clock has been set back, and nobody knows what is owed.
    if held[1] >= MOST then return 0 end
    local drained = max(limit.now - stamp, 0) * limit.a + max(held[1] - limit.c, 0)
    local owed = min(max(units * limit.b - drained, 0), held[1])
    held[1] = held[1] - owed
    return div(owed, limit.b)
  end
  if held[1] ~= stamp then return 0 end
  local at = newest(limit)
  units = min(units, held[at])
  held[at] = held[at] - units
  return units
end

-- Stores what it holds until it is as good as unused, in whole milliseconds, rounded up.
local function store(limit)
  local held, idle = limit.held, nil
  local numbers = held
  if limit.kind == GCRA then
    local over = fmod(held[1], limit.a)
    idle = limit.now + (held[1] - over) / limit.a
    numbers = { idle, over }
    if over > 0 then idle = idle + 1 end
  elseif limit.kind == FROM_FIRST then
    idle = held[1] + limit.a
  else
    local windows = limit.kind == FIXED and 1 or limit.kind == SLIDING and 2 or limit.c
    idle = (held[1] + windows) * limit.a
  end
  local texts = {}
  for i = 1, #numbers do texts[i] = format('%.0f', numbers[i]) end
  -- The server tells when keys expire in milliseconds, so from the one that has begun.
  local ttl_ms = div(idle * limit.tick + 999, 1000) - div(now_us, 1000) + grace_ms
  redis.call('SET', limit.key, concat(texts, ' '), 'PX', format('%.0f', max(ttl_ms, 1)))
end

local function carry_out(verb, limit, at, admitted)
  local want, least, share = tonumber(ARGV[at + 5]), tonumber(ARGV[at + 6]), tonumber(ARGV[at + 7])
  local units, changed = 0, limit.broken
  if verb == 'check' and admitted then
    units = min(want, max(least, div(limit.room, share)))
    charge(limit, units)
    changed = changed or units > 0
  elseif verb == 'refund' then
    local before = limit.held[1]
    units = give_back(limit, want, tonumber(ARGV[at + 8]))
    changed = changed or units > 0 or limit.held[1] ~= before
  end
  if changed and verb ~= 'peek' then store(limit) end
  return units
end

local replies, key, at = { now_us }, 1, 2
for _ = 1, tonumber(ARGV[1]) do
  local verb, count = ARGV[at], tonumber(ARGV[at + 1])
  at = at + 2
  local limits, admitted = {}, true
  for i = 1, count do
    local limit = look(KEYS[key], at + (i - 1) * 9)
    limit.admits = limit.fits and tonumber(ARGV[at + (i - 1) * 9 + 6]) <= limit.room
    admitted = admitted and limit.admits
    limits[i] = limit
    key = key + 1
  end
  replies[#replies + 1] = admitted and 1 or 0
  for i = 1, count do
    local limit = limits[i]
    local units = carry_out(verb, limit, at, admitted)
    replies[#replies + 1] = limit.admits and 1 or 0
    replies[#replies + 1] = limit.broken and 1 or 0
    replies[#replies + 1] = units
    for j = 1, #limit.held do
      local ahead = j == 1 and limit.kind ~= GCRA and limit.kind ~= FROM_FIRST
      replies[#replies + 1] = ahead and limit.held[1] - limit.window or limit.held[j]
    end
    at = at + 9
  end
end
return replies
