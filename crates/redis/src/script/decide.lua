-- Every algorithm and every verb, for a batch of requests. Two lines before this text set `now_us`, the time,
-- `grace_ms`, for how long keys outlive their use, and `slack_us`, see below.
--
-- KEYS: one for each limit, in the order of the blocks.
-- ARGV: for each key a block of bytes (see script.rs):
--   begins                a request begins here (2), or another group of its limits (1), or neither (0)
--   verb                  check (0), peek (1), refund (2), add (3): charged whether it fits or not; refuse (4): a
--                         denial counts as that of a check does, and an admission charges nothing; charge (5): gcra
--                         goes into debt, a window takes what fits; reset (6): deletes the key; reserve (7), of
--                         gcra: a check that may fit later; cancel (8): a refund of what was charged last; uncharge (9):
--                         gives back of whatever is charged; count (10), look at count (11), uncount (12): of a
--                         count under a key of envoyproxy/ratelimit
--   say                   what the group does if it is over a limit: deny (0), nothing (1), or deny if all such
--                         groups of the request are over their limits (2)
--   kind, tick, a, b, c   the policy, see plan.rs; a kind of 8 and above has rules in its mark, see at_limit.lua
--   want, least, share    units: take `want`, or as many as fit in 1/share of what is left, but no fewer
--                         than `least`; less than `least` is a denial
--                         reserve: by `share` parts the debt may exceed the capacity. cancel: `share` is what the
--                         newest count (GCRA: the debt) was after the charge. count, uncount: `share` is the time to
--                         live in seconds. refund: `share` is when the units were charged, in microseconds; then all
--                         states of the key give them back. If that is not known it is 1: then only that of the policy does
--   stamp                 in a refund or cancel: when, or in which window, the units were charged
--   turns                 of windows of the calendar: see calendar.lua
--   mark                  the policy once more, as text in the key: its five numbers, each followed by a space
-- The reply is bytes, too: the time, and for each limit its flags (1 if its request is admitted, 2 if the limit
-- admits by itself, 4 if the key holds what this script does not write, and was taken for a full limit, 8 if the time is in none of the
-- windows that were sent), the units charged or given back, and what it holds (see state.rs). A limit that stands in a
-- request twice is one limit.
--
-- A key of a sliding log stores that: see log.lua. Any other stores a state: the mark, and the numbers that its
-- policy holds. While a policy is changed, some nodes ask under the new one and some still under the old one. The new
-- state begins with what the old one held, at most the new limit. From then on the key stores a state for each
-- policy, with `;` between them: all are charged together, each drains at its own rate, and a request looks at the
-- state of its own policy. So what is admitted under one policy counts under the other: in any order they admit no
-- more than the larger of the two would alone. A state that has drained is left out.
--
-- No state holds more than its limit for what was admitted under another policy: under a lowered limit a client waits
-- until a unit of that fits, and not until all that was spent before has drained at the new rate. The part that was cut
-- off is kept as the state's *excess*, where it matters: what is given back comes off that first, since giving it back
-- makes no room. For the other bound let E be what is owed of all charges, drained at the fastest rate of the policies,
-- M the largest limit among them, and S what a state of the limit L holds. When a state is cut, S = L and E <= M. Later
-- charges add to both, and E drains no slower, so E <= S + M - L until the state is cut again. A policy admits up to
-- S = L, so E <= M. Of the largest limit itself L is M, so it may not be forgotten before it has drained.
--
-- All numbers are whole and at most 2^53 - 1, where doubles are exact; plan.rs refuses other policies. No loop is
-- longer than the number of limits in the call, of states of a key, or of segments of a limit (64 at most).
--
-- When the server's clock is set back, what is stored lies in the future, and would limit until the clock has caught
-- up with it. Up to `slack_us` that is left so: clocks are set by so much in ordinary use (by a leap second; and NTP
-- steps a clock only when it is off by more than 128 ms). A state that lies further ahead than its policy can lead
-- and the slack was written before the clock was set back. It is moved to now, with no less in it than when it was
-- written:
--   GCRA        with two numbers it was written owing `c` at most (its own policy's `c`): it owes `c` and a
--               tick. A state that owes more, by `add` or under another policy, is written with the tick of
--               writing as a third number: it owes what it owed then, and a tick.
--   windows     its window becomes the next one, so that at least a whole one passes before its count is forgotten
--   FROM_FIRST  its window begins in the next tick
-- It is stored so, by a denial too: otherwise it would be moved again and again, and never drain. Nothing is admitted
-- for it: no time passes for a state from when it was written until it is moved, and afterwards as much as really
-- does. So its time never runs faster than the true time, under which the bounds hold. When the clock is set forward,
-- wrongly or back to where it was, everything drains: that is a burst, each time.

local MOST = 9007199254740991
local BLOCK, MARK = '<BBBBdddddddd', 69
-- States of a key: enough for rules that are changed three times while nodes with the first of them are still there.
local STATES = 4
local GCRA, FIXED, FROM_FIRST, SLIDING, SEGMENTED, CALENDAR = 1, 2, 3, 4, 5, 7
local CHECK, PEEK, REFUND, ADD, REFUSE, CHARGE, RESET, RESERVE, CANCEL, UNCHARGE = 0, 1, 2, 3, 4, 5, 6, 7, 8, 9
local COUNT, LOOK_AT_COUNT = 10, 11
local DENIES, DENIES_TOGETHER = 0, 2
local fmod, min, max = math.fmod, math.min, math.max
local byte, find, match, sub = string.byte, string.find, string.match, string.sub
local format, concat, call = string.format, table.concat, redis.call
local bytes_of, numbers_of = struct.pack, struct.unpack

-- The whole quotient: `%` and `floor(a / b)` would round before.
local function div(a, b)
  return (a - fmod(a, b)) / b
end

-- A key expires when the last of what it holds is over. One that is there a slack later has lost its expiry, or what it
-- holds is no longer what was written: taken for what it says, it would let the limit begin anew.
local function is_stale(until_us)
  return until_us + grace_ms * 1000 + slack_us < now_us
end

-- What the key stores, nil if nothing; and whether it holds a value of another type.
local function read(key)
  local text = redis.pcall('GET', key)
  if not text then return nil, false end
  if type(text) == 'string' then return text, false end
  if not find(text.err, '^WRONGTYPE') then error(text.err) end
  return nil, true
end

-- The text of a debt, after its mark, and the tick from which on the debt counts as none. The text has the tick in
-- which the debt will have drained, and the parts that are left over in it; above the capacity `c`, or if there is an
-- excess, also the tick of writing; and then the excess, if any.
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

-- What is owed now, and whether the clock was set back since it was written.
local function debt_of(idle, over, written, now, tick, a, c)
  if idle < now then return 0, false end
  if (written or idle - c / a) > now + slack_us / tick then
    return min((written and (idle - written) * a + over or c) + a, MOST), true
  end
  return min((idle - now) * a + over, MOST), false
end

-- Under GCRA a tick drains `a` parts, a unit has `b`, the capacity is `c`. Returns how many whole units fit beside a
-- debt, and whether `least` fit.
local function room_of(debt, b, c, least)
  local room = div(max(c - debt, 0), b)
  return room, debt <= c and least <= room
end

-- Stores a text until it counts as none: in whole milliseconds, rounded up. The server counts expiry in milliseconds,
-- from the beginning of the current one. `call` writes a whole number without rounding it.
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

-- Decides a check or peek of one limit under GCRA, as most requests are, without the tables that others need. Returns
-- nil if the key stores anything but one state of this policy, of two numbers.
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

-- The same of one limit under a fixed window, as the rules of Envoy have it. Returns nil if the key stores anything but one
-- state of this policy, or one that was written before the clock was set back.
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
