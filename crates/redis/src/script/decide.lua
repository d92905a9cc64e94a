-- Decides a batch of requests, for every algorithm and every verb. Two lines before this text set `now_us`, the time;
-- `grace_ms`, the time for which keys outlive their use; and `slack_us`, see below.
--
-- KEYS: one for each limit, in the order of the blocks.
-- ARGV: for each key a block of bytes (see mod.rs):
--   begins                2 if a request begins here, 1 if another group of the same request begins here, else 0
--   verb                  check (0); peek (1); refund (2); add (3): charges units whether they fit or not; refuse (4):
--                         counts a denial as a check does, but charges nothing; charge (5): gcra goes into debt, a
--                         window takes as many units as fit; reset (6): deletes the key; reserve (7): a check under
--                         gcra whose units may fit later; cancel (8): refunds the last charge; uncharge (9): gives
--                         back units of any charges; count (10), look at count (11), uncount (12): for a count under a
--                         key of envoyproxy/ratelimit
--   say                   what the group does if one of its limits is exceeded: it denies (0), does nothing (1), or
--                         denies if all groups of this kind in the request are over their limits (2)
--   kind, tick, a, b, c   the policy, see plan.rs; a kind of 8 and above has rules in its mark, see at_limit.lua
--   want, least, share    the units: take `want`, or as many as fit in 1/share of the units left, but at least
--                         `least`; if fewer than `least` units fit, deny
--                         reserve: `share` is the number of parts by which the debt may exceed the capacity
--                         cancel: `share` is the newest count (GCRA: the debt) after the charge
--                         count, uncount: `share` is the time to live in seconds
--                         refund: `share` is the time of the charge, in microseconds, and the units are given back in
--                         all states of the key. If the time is not known, it is 1, and the units are given back only
--                         in the state of the policy
--   stamp                 in a refund or cancel: the tick, or the window, in which the units were charged
--   turns                 only for windows of the calendar: see calendar.lua
--   mark                  the policy once more, as text in the key: its five numbers, each followed by a space
-- The reply is bytes, too: the time, and for each limit its flags, the units charged or given back, and its state (see
-- state.rs). The flags are 1 if the request is admitted, 2 if this limit alone would admit it, 4 if the key stores
-- something that this script does not write, and was taken for a full limit, and 8 if the time is in none of the
-- windows that were sent. If a request has a limit twice, both count as one limit.
--
-- The key of a sliding log stores the log: see log.lua. Any other key stores a state: the mark, and the numbers of its
-- policy's state. While a policy is being changed, some nodes ask under the new policy and some still under the old
-- policy. The new state begins with the units of the old state, but with at most the new limit. From then on the key
-- stores a state for each policy, separated by `;`. All states are charged together, each drains at its own rate, and a
-- request is decided by the state of its own policy. So units that are admitted under one policy count under the other,
-- and in any order both together admit no more than the larger of them would alone. A state that has drained is not
-- stored.
--
-- Units that were admitted under another policy fill a state to its limit at most; the rest is cut off. So under a
-- lowered limit a client waits until a unit of that limit fits, and not until all its earlier units have drained at the
-- new rate. The part that was cut off is kept as the state's *excess*, where it matters: a refund is taken off the
-- excess first, since giving that part back makes no room. The bound holds for this reason: let E be the debt of all
-- charges, drained at the fastest rate of the policies, M the largest limit among them, and S the count of a state with
-- the limit L. When a state is cut, S = L and E <= M. Later charges add to both, and E drains no slower, so E - S
-- stays at most M - L until the state is cut again. A policy admits up to S = L, so E <= M. For the largest limit, L is
-- M, so its state may not be forgotten before it has drained.
--
-- All numbers are whole and at most 2^53 - 1, where doubles are exact; plan.rs refuses other policies. No loop is
-- longer than the number of limits in the call, of states of a key, or of segments of a limit (64 at most).
--
-- When the server's clock is set back, stored times are in the future, and states would limit until the clock has
-- caught up with them. If a clock is set back by no more than `slack_us`, this is accepted, since ordinary use sets
-- clocks by so little (a leap second, or a step by NTP, which steps a clock only when it is off by more than 128 ms).
-- If a state is further ahead than its policy can put it plus the slack, it was written before the clock was set back.
-- Such a state is moved to the present, with no fewer units than when it was written:
--   GCRA        a state with two numbers was written with a debt of at most `c` (of its own policy). Its debt becomes
--               `c` plus a tick. A larger debt comes from `add` or from another policy, and its state has the tick of
--               writing as a third number. It becomes the debt at that tick, plus a tick.
--   windows     its window becomes the next window, so at least a whole window passes before its count is forgotten
--   FROM_FIRST  its window begins in the next tick
-- The moved state is stored even by a denial. Otherwise it would be moved again and again, and never drain. The move
-- admits no more units: for the state no time passes between its writing and its move, and afterwards its time passes
-- like the true time. So its time never runs faster than the true time, under which the bounds hold. When the clock is
-- set forward, by mistake or to correct it, every state drains, which admits one more burst each time.

local MOST = 9007199254740991
local BLOCK, MARK = '<BBBBdddddddd', 69
-- The maximum number of states of a key. It is enough if rules are changed three times while some nodes still use the
-- first version.
local STATES = 4
local GCRA, FIXED, FROM_FIRST, SLIDING, SEGMENTED, CALENDAR = 1, 2, 3, 4, 5, 7
local CHECK, PEEK, REFUND, ADD, REFUSE, CHARGE, RESET, RESERVE, CANCEL, UNCHARGE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
local COUNT, LOOK_AT_COUNT = 10, 11
local DENIES, DENIES_TOGETHER = 0, 2
local fmod, min, max = math.fmod, math.min, math.max
local byte, find, match, sub = string.byte, string.find, string.match, string.sub
local format, concat, call = string.format, table.concat, redis.call
local bytes_of, numbers_of = struct.pack, struct.unpack

-- Returns the quotient, rounded down. `%` and `floor(a / b)` would compute from a rounded quotient.
local function div(a, b)
  return (a - fmod(a, b)) / b
end

-- Whether a key should have expired. A key expires when its last state is over. If it still exists after the slack, it
-- has lost its expiry, or somebody else wrote its value. Such a value must not be used, since the limit would begin
-- anew.
local function is_stale(until_us)
  return until_us + grace_ms * 1000 + slack_us < now_us
end

-- Returns the text that the key stores, or nil if there is none, and whether the key has a value of another type.
local function read(key)
  local text = redis.pcall('GET', key)
  if not text then return nil, false end
  if type(text) == 'string' then return text, false end
  if not find(text.err, '^WRONGTYPE') then error(text.err) end
  return nil, true
end

-- Returns the stored text of a debt, and the first tick at which the debt has drained. After the mark, the text has the
-- number of the last full tick of draining, and the parts that remain after it. If the debt is above the capacity `c`,
-- or there is an excess, the tick of writing follows, and then the excess, if any.
local function text_of(mark, debt, now, a, c, excess)
  local over = fmod(debt, a)
  local idle = now + (debt - over) / a
  local text = format('%s%.0f %.0f', mark, idle, over)
  if excess > 0 then
    text = format('%s %.0f %.0f', text, now, excess)
  elseif debt > c then
    text = format('%s %.0f', text, now)
  end
  return text, over > 0 and idle + 1 or idle
end

-- Returns the debt now, and whether the clock was set back since it was written.
local function debt_of(idle, over, written, now, tick, a, c)
  if idle < now then return 0, false end
  if (written or idle - c / a) > now + slack_us / tick then
    return min((written and (idle - written) * a + over or c) + a, MOST), true
  end
  return min((idle - now) * a + over, MOST), false
end

-- Under GCRA a tick drains `a` parts, a unit has `b` parts, and the capacity is `c` parts. Returns how many whole units
-- fit on top of a debt, and whether `least` units fit.
local function room_of(debt, b, c, least)
  local room = div(max(c - debt, 0), b)
  return room, debt <= c and least <= room
end

-- Stores a text, with an expiry at `until_us`, when its state is over. The time to live is in whole milliseconds,
-- rounded up; the server counts it from the beginning of the current millisecond. `call` formats a whole number without
-- rounding it.
local function keep(key, text, until_us)
  local ttl_ms = div(until_us + 999, 1000) - div(now_us, 1000) + grace_ms
  call('SET', key, text, 'PX', max(min(ttl_ms, MOST), 1))
end

local function units_of(want, least, share, room)
  return min(want, max(least, div(room, share)))
end

local function flags_of(admitted, admits, broken)
  return (admitted and 1 or 0) + (admits and 2 or 0) + (broken and 4 or 0)
end

-- Decides a check or peek of one limit under GCRA, the most common request, without the tables that other requests
-- need. Returns nil if the key stores anything but one state of this policy with two numbers.
local function alone(key, block, verb, tick, a, b, c, want, least, share)
  local mark = sub(block, MARK)
  local now = tick == 1 and now_us or div(now_us, tick)
  local text, broken = read(key)
  if broken then return nil end
  local debt, moved = 0, false
  if text then
    if find(text, mark, 1, true) ~= 1 then return nil end
    local idle, over = match(text, '^(%d+) (%d+)$', #mark + 1)
    idle, over = tonumber(idle), tonumber(over)
    if not idle or idle > MOST or over >= a or is_stale((idle + 1) * tick) then return nil end
    debt, moved = debt_of(idle, over, nil, now, tick, a, c)
  end
  local room, admits = room_of(debt, b, c, least)
  local units = 0
  if verb == CHECK then
    if admits then
      units = units_of(want, least, share, room)
      debt = debt + units * b
    end
    if units > 0 or moved then
      local stored, idle = text_of(mark, debt, now, a, c, 0)
      keep(key, stored, idle * tick)
    end
  end
  return bytes_of('<Bdd', flags_of(admits, admits, false), units, debt)
end

-- Does the same for one limit under a fixed window, as rules for Envoy use it. Returns nil if the key stores anything
-- but one state of this policy, or if that state was written before the clock was set back.
local function alone_in_window(key, block, verb, tick, a, b, want, least, share)
  local mark = sub(block, MARK)
  local now = tick == 1 and now_us or div(now_us, tick)
  local this = div(now, a)
  local text, broken = read(key)
  if broken then return nil end
  local window, used = this, 0
  if text then
    if find(text, mark, 1, true) ~= 1 then return nil end
    local stored, count = match(text, '^(%d+) (%d+)$', #mark + 1)
    stored, count = tonumber(stored), tonumber(count)
    if not stored or stored > MOST or count > MOST or is_stale((stored + 1) * a * tick) then return nil end
    if (stored - 1) * a > now + slack_us / tick then return nil end
    if stored >= this then window, used = stored, count end
  end
  local room = max(b - used, 0)
  local admits = used <= b and least <= room
  local units = verb == CHECK and admits and units_of(want, least, share, room) or 0
  if units > 0 then
    used = used + units
    keep(key, format('%s%.0f %.0f', mark, window, used), (window + 1) * a * tick)
  end
  return bytes_of('<Bddd', flags_of(admits, admits, false), units, window - this, used)
end
