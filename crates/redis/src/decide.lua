-- Every algorithm and every verb, for a batch of requests. Above this text stand two lines that set
-- `now_us`, the time, `grace_ms`, by which keys outlive their use, and `slack_us`, see below.
--
-- KEYS: one for each limit, in the order of the blocks.
-- ARGV: for each key a block of bytes (see script.rs):
--   begins                a request begins here (2), or another group of its limits (1), or neither (0)
--   verb                  check (0), peek (1), refund (2), add (3): charged whether it fits or not
--   say                   of the group: over the limit it denies (0), or changes nothing (1), or denies if
--                         all such groups of the request are over their limits (2)
--   kind, tick, a, b, c   the policy, see plan.rs
--   want, least, share    units: take `want`, or as many as fit in 1/share of what is left, but no fewer
--                         than `least`; less than `least` is a denial
--   stamp                 of a refund: when (which window) the units were charged
-- Replies bytes, too: the time; for each limit flags (1 if its request is admitted, 2 if the limit admits
-- by itself, 4 if its state could not be read and was replaced by a full one), the units charged or given
-- back, and what it holds: see state.rs. A limit that stands twice in a request is one limit.
--
-- All numbers are whole and at most 2^53 - 1, where doubles are exact; plan.rs refuses what is not.
-- Nothing is repeated more often than there are limits, and segments in a limit (64 at most).
--
-- A clock that was set back. What is stored then lies in the future, and would limit until the clock has
-- caught up with it. By up to `slack_us` that is left so: clocks are set by as much in ordinary use (a leap
-- second; and NTP steps a clock only when it is off by more than 128 ms). A state that lies further ahead than
-- its policy can lead, and the slack, was written by a clock that has been set back since. It is moved to
-- now, with no less in it than when it was written:
--   GCRA        with two numbers it was written owing `c` at most (a key is of one policy, so this `c`): it
--               owes `c` and a tick. What owes more, by `add`, is written with the tick of writing as a third
--               number: it owes what it owed then, and a tick.
--   windows     its window is the next one, so that at least a whole one passes before its count is let go
--   FROM_FIRST  its window begins in the next tick
-- and is stored so, also by a denial: else it would be moved again and again, and never drain. This admits
-- nothing too much: from when a state was written until it is moved no time passes for it, and afterwards as
-- much as really does, so its time never runs faster than the true one, by which the bounds hold.
-- A clock that is set forward, wrongly or back to where it was, lets everything drain: a burst, each time.

local MOST = 9007199254740991
local BLOCK = '<BBBBdddddddd'
local GCRA, FIXED, FROM_FIRST, SLIDING, SEGMENTED = 1, 2, 3, 4, 5
local CHECK, PEEK, REFUND, ADD = 0, 1, 2, 3
local DENIES, DENIES_TOGETHER = 0, 2
local fmod, min, max = math.fmod, math.min, math.max
local byte, find, match = string.byte, string.find, string.match
local format, concat, call = string.format, table.concat, redis.call
local bytes_of, numbers_of = struct.pack, struct.unpack

-- Whole quotient. `%` and `floor(a / b)` would round first.
local function div(a, b)
  return (a - fmod(a, b)) / b
end

-- What the key stores; nil if nothing. And whether it is something that is none of ours.
local function read(key)
  local text = redis.pcall('GET', key)
  if not text then return nil, false end
  if type(text) == 'string' then return text, false end
  if not find(text.err, '^WRONGTYPE') then error(text.err) end
  return nil, true
end

-- The same as a debt: two numbers, or three.
local function read_debt(key)
  local text, broken = read(key)
  if not text then return nil, nil, nil, broken end
  local idle, over = match(text, '^(%d+) (%d+)$')
  local written
  if not idle then idle, over, written = match(text, '^(%d+) (%d+) (%d+)$') end
  idle, over, written = tonumber(idle), tonumber(over), tonumber(written)
  if not idle or idle > MOST or over > MOST or (written or 0) > idle then return nil, nil, nil, true end
  return idle, over, written, false
end

-- Under GCRA a tick drains `a` parts, a unit has `b`, the capacity is `c`: the debt in parts, whether the
-- state cannot be read or was moved, whole units that fit, and whether `least` do. A state that cannot be
-- read is a full limit.
local function look_at_debt(key, now, tick, a, b, c, least)
  local idle, over, written, broken = read_debt(key)
  local debt, moved = broken and c or 0, false
  if idle and idle >= now then
    moved = (written or idle - c / a) > now + slack_us / tick
    debt = min((idle - now) * a + over, MOST)
    -- The clock was set back.
    if moved then debt = min((written and (idle - written) * a + over or c) + a, MOST) end
  end
  local room = div(max(c - debt, 0), b)
  return debt, broken, moved, room, debt <= c and least <= room
end

-- Stores a text until the tick `idle`, from which on it is as good as none; in whole milliseconds, rounded
-- up. The server tells when keys expire in milliseconds, so from the one that has begun. It writes a number
-- as whole as it is.
local function keep(key, text, idle, tick)
  local ttl_ms = div(idle * tick + 999, 1000) - div(now_us, 1000) + grace_ms
  call('SET', key, text, 'PX', max(ttl_ms, 1))
end

-- A debt is kept as the tick in which it will have drained, and the parts that are left over then; above the
-- capacity `c` with the tick of writing.
local function keep_debt(key, debt, now, tick, a, c)
  local over = fmod(debt, a)
  local idle = now + (debt - over) / a
  local text = debt > c and format('%.0f %.0f %.0f', idle, over, now) or format('%.0f %.0f', idle, over)
  keep(key, text, over > 0 and idle + 1 or idle, tick)
end

local function units_of(want, least, share, room)
  return min(want, max(least, div(room, share)))
end

local function flags_of(admitted, admits, broken)
  return (admitted and 1 or 0) + (admits and 2 or 0) + (broken and 4 or 0)
end

-- A check or peek of one limit under GCRA: what most requests are, without the tables that others need.
local function alone(key, verb, tick, a, b, c, want, least, share)
  local now = tick == 1 and now_us or div(now_us, tick)
  local debt, broken, moved, room, admits = look_at_debt(key, now, tick, a, b, c, least)
  local units = 0
  if verb == CHECK then
    if admits then
      units = units_of(want, least, share, room)
      debt = debt + units * b
    end
    if units > 0 or broken or moved then keep_debt(key, debt, now, tick, a, c) end
  end
  return bytes_of('<Bdd', flags_of(admits, admits, broken), units, debt)
end

-- Everything else. These functions are made when a call first needs them: to make a dozen functions takes the
-- server as long as several decisions.
local function others()
  local gmatch, rep = string.gmatch, string.rep

  -- What the key stores, as so many numbers.
  local function read_all(key, fields)
    local text, broken = read(key)
    if not text then return nil, broken end
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
  local function look(key, block)
    local begins, verb, say, kind, tick, a, b, c, want, least, share, stamp =
      numbers_of(BLOCK, block)
    local now = tick == 1 and now_us or div(now_us, tick)

    if kind == GCRA then
      local debt, broken, moved, room, admits = look_at_debt(key, now, tick, a, b, c, least)
      return {
        key = key, begins = begins, verb = verb, say = say, kind = kind, tick = tick, a = a, b = b, c = c,
        want = want, least = least, share = share, stamp = stamp, now = now, broken = broken, moved = moved,
        held = { debt }, room = room, admits = admits,
      }
    end

    local stored, broken = read_all(key, kind == SEGMENTED and c + 1 or kind == SLIDING and 3 or 2)
    local window = kind == FROM_FIRST and now or div(now, a)
    -- The clock was set back.
    local slack = slack_us / tick
    local moved = stored and kind == FROM_FIRST and stored[1] > now + slack
      or stored and kind ~= FROM_FIRST and (stored[1] - 1) * a > now + slack
    if moved then stored[1] = window + 1 end
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
    local room = max(b - used, 0)
    return {
      key = key, begins = begins, verb = verb, say = say, kind = kind, tick = tick, a = a, b = b, c = c,
      want = want, least = least, share = share, stamp = stamp, now = now, broken = broken, moved = moved,
      window = window, held = held, room = room, admits = used <= b and least <= room,
    }
  end

  -- The second place of a limit in one request: it holds the same, less what the first asks for.
  local function again(first, block)
    local limit = {}
    for name, value in pairs(first) do limit[name] = value end
    local begins, verb, say, _, _, _, _, _, want, least, share, stamp = numbers_of(BLOCK, block)
    limit.begins, limit.verb, limit.say = begins, verb, say
    limit.want, limit.least, limit.share, limit.stamp = want, least, share, stamp
    limit.room = max(first.room - first.least, 0)
    limit.admits = first.admits and least <= limit.room
    return limit
  end

  -- Where the count is that grows.
  local function newest(limit)
    return limit.kind == SLIDING and 3 or 2
  end

  -- Charges units that fit, or were admitted without being asked for here.
  local function charge(limit, units)
    local at = limit.kind == GCRA and 1 or newest(limit)
    limit.held[at] = min(limit.held[at] + units * (limit.kind == GCRA and limit.b or 1), MOST)
  end

  -- Gives back what has not drained since it was charged; returns how many units, rounded up: what is told
  -- is no less than what is given back.
  local function give_back(limit, units, stamp)
    local held = limit.held
    if limit.kind == GCRA then
      -- Charged before the clock was set back, or a debt that was cut off then: nobody knows what has drained.
      if limit.moved or stamp > limit.now + slack_us / limit.tick or held[1] >= MOST then return 0 end
      local drained = max(limit.now - stamp, 0) * limit.a + max(held[1] - limit.c, 0)
      local owed = min(max(units * limit.b - drained, 0), held[1])
      held[1] = held[1] - owed
      return div(owed, limit.b) + (fmod(owed, limit.b) > 0 and 1 or 0)
    end
    if held[1] ~= stamp then return 0 end
    local at = newest(limit)
    units = min(units, held[at])
    held[at] = held[at] - units
    return units
  end

  -- Stores what it holds until it is as good as unused.
  local function store(limit)
    local held, kind = limit.held, limit.kind
    if kind == GCRA then return keep_debt(limit.key, held[1], limit.now, limit.tick, limit.a, limit.c) end
    local windows = kind == SLIDING and 2 or kind == SEGMENTED and limit.c or 1
    local idle = kind == FROM_FIRST and held[1] + limit.a or (held[1] + windows) * limit.a
    local texts = {}
    for i = 1, #held do texts[i] = format('%.0f', held[i]) end
    keep(limit.key, concat(texts, ' '), idle, limit.tick)
  end

  -- Charges it, if its request and its group are admitted, or gives back; the reply.
  local function carry_out(limit, admitted, charged)
    local units, changed = 0, limit.broken or limit.moved
    if limit.verb == CHECK and charged then
      units = units_of(limit.want, limit.least, limit.share, limit.room)
      charge(limit, units)
      changed = changed or units > 0
    elseif limit.verb == ADD then
      units = limit.want
      charge(limit, units)
      changed = changed or units > 0
    elseif limit.verb == REFUND then
      local before = limit.held[1]
      units = give_back(limit, limit.want, limit.stamp)
      changed = changed or units > 0 or limit.held[1] ~= before
    end
    if changed and limit.verb ~= PEEK then store(limit) end
    local flags = flags_of(admitted, limit.admits, limit.broken)
    local held, kind = limit.held, limit.kind
    if kind == GCRA then return bytes_of('<Bdd', flags, units, held[1]) end
    local first = kind == FROM_FIRST and held[1] or held[1] - limit.window
    if #held == 2 then return bytes_of('<Bddd', flags, units, first, held[2]) end
    return bytes_of('<Bdd' .. rep('d', #held - 1), flags, units, first, unpack(held, 2))
  end

  -- Whether a request of several limits is admitted. Marks in each limit the first of its group, which
  -- keeps whether all of them admit.
  local function decide(limits)
    local group
    for i = 1, #limits do
      local limit = limits[i]
      if limit.begins > 0 then
        group = limit
        group.all = true
      end
      limit.group = group
      group.all = group.all and limit.admits
    end
    local admitted, together, any = true, false, false
    for i = 1, #limits do
      local limit = limits[i]
      if limit.group == limit and limit.say == DENIES then
        admitted = admitted and limit.all
      elseif limit.group == limit and limit.say == DENIES_TOGETHER then
        together, any = true, any or limit.all
      end
    end
    return admitted and (any or not together)
  end

  -- Several limits of one request, in their order.
  local function together(first, last)
    local limits, seen, replies = {}, {}, {}
    for at = first, last do
      local key, block = KEYS[at], ARGV[at]
      local limit = seen[key] and again(seen[key], block) or look(key, block)
      seen[key] = limit
      limits[#limits + 1] = limit
    end
    local admitted = decide(limits)
    for i = 1, #limits do
      replies[i] = carry_out(limits[i], admitted, admitted and limits[i].group.all)
    end
    return concat(replies)
  end

  return together
end

local replies, count, first, together = { bytes_of('<d', now_us) }, #KEYS, 1, nil
while first <= count do
  local last = first
  while last < count and byte(ARGV[last + 1]) < 2 do last = last + 1 end
  local _, verb, say, kind, tick, a, b, c, want, least, share = numbers_of(BLOCK, ARGV[first])
  if first == last and kind == GCRA and verb < REFUND and say == DENIES then
    replies[#replies + 1] = alone(KEYS[first], verb, tick, a, b, c, want, least, share)
  else
    together = together or others()
    replies[#replies + 1] = together(first, last)
  end
  first = last + 1
end
return concat(replies)
