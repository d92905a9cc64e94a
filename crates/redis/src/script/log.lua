-- Sliding logs: a limit `b` in any window of `a` microseconds. A log keeps the time of every charge, in one string:
--   a head  the fields of `FIELDS` below, 72 bytes
--   a ring  `room` entries of 16 bytes, the oldest at `first`. An entry is the instant of a charge, and the sum of all
--           units up to and including it. Charges at the same instant are one entry.
-- The units in a window are the difference of two sums. So a decision reads the head, and some entries in up to three
-- searches of at most 2 log2(n) steps each. A charge writes one entry. Each entry has at least one unit, so the newest
-- `most` entries are enough for any limit up to `most`, and no more are kept. The ring begins with 8 entries, and
-- doubles when it is full: it is then copied, without a loop.
--
-- One ring serves all policies of a key: each policy counts its own window, and a charge counts under all of them.
-- `keep` is the longest window and `most` the largest limit of the policies in use. `asked` is the last time at which a
-- request had that window or that limit. If it is longer ago than `keep`, the next request sets all three anew.
--
-- With `c` = 1 denials count: the units of a denied request become an entry, too. Only the newest `most` units are
-- kept, and of these a policy counts the newest `b`. If these `b` are all from the last thousandth of the window, a
-- denial is not recorded, as in the core.
--
-- The time of a log never goes back: if the clock is behind the newest unit, `now` is that unit's time. Units that had
-- left the window at that time stay out of it. New charges get that time, too, so they count longer by as much as the
-- clock went back. A log that is ahead by more than the slack was written before the clock was set back. It moves to
-- the next tick as a whole: the stored times stay as they are, and `shift` grows.
local LOG = 6
local FIELDS, HEAD, ENTRY, FIRST_ROOM = '<c4dddddddI4I4I4', 72, 16, 8
-- A refund has to write all entries behind the entry that it changes. If there are more than this, it gives nothing
-- back.
local BEHIND = 1024

-- Makes the functions for logs. A call makes them when it first needs them.
local function logs()
  local logs = {}

  local function place(log, n)
    return HEAD + (log.first + n) % log.room * ENTRY
  end

  -- Returns the time of entry `n`, where the oldest entry is 0, and the sum of all units up to it. An entry that cannot
  -- belong to this log sets `is_spoilt`.
  local function entry(log, n)
    local at = place(log, n)
    local instant, sum = numbers_of('<dd', call('GETRANGE', log.key, at, at + ENTRY - 1))
    instant = instant - log.shift
    if not (instant >= 0 and instant <= log.last and sum > log.before and sum <= log.total) then log.is_spoilt = true end
    return instant, sum
  end

  local function write(log, n, instant, sum)
    call('SETRANGE', log.key, place(log, n), bytes_of('<dd', instant + log.shift, sum))
  end

  -- Returns the index of the first entry for which `is_past` holds, or the number of entries if it holds for none.
  -- `is_past` must hold for all entries after the first for which it holds.
  local function search(log, from, is_past)
    local low, high, step = from, log.count, 1
    while low + step < high do
      if is_past(entry(log, low + step - 1)) then
        high = low + step - 1
      else
        low, step = low + step, step * 2
      end
    end
    while low < high do
      local middle = div(low + high, 2)
      if is_past(entry(log, middle)) then high = middle else low = middle + 1 end
    end
    return low
  end

  -- Returns how many entries have left a window, and the sum of all units up to the last of these.
  local function gone(log, window)
    local edge = log.now - window
    if log.count > 0 and log.last <= edge then
      local instant, sum = entry(log, log.count - 1)
      log.is_spoilt = log.is_spoilt or instant ~= log.last or sum ~= log.total
    end
    if log.count == 0 or log.last <= edge then return log.count, log.total end
    local outside = search(log, 0, function(instant) return instant > edge end)
    if outside == 0 then return 0, log.before end
    local _, sum = entry(log, outside - 1)
    return outside, sum
  end

  local function forget(log, outside, sum)
    if outside == 0 then return end
    log.first, log.count, log.before = (log.first + outside) % log.room, log.count - outside, sum
  end

  local function head_of(log)
    return bytes_of(FIELDS, 'log1', log.shift, log.keep, log.most, log.asked, log.before, log.total, log.last + log.shift,
      log.first, log.count, log.room)
  end

  -- Makes room for one entry.
  local function extend(log)
    forget(log, gone(log, log.keep))
    if log.count < log.room then return end
    if log.room >= log.most then
      local _, sum = entry(log, 0)
      return forget(log, 1, sum)
    end
    local start, last = place(log, 0), HEAD + log.room * ENTRY
    local ring = call('GETRANGE', log.key, start, last - 1)
    if start > HEAD then ring = ring .. call('GETRANGE', log.key, HEAD, start - 1) end
    log.first, log.room = 0, min(log.room * 2, log.most)
    call('SET', log.key, head_of(log) .. ring)
  end

  local function push(log, units)
    local instant = log.now
    if log.count == 0 or log.last < instant then
      if log.count == log.room then extend(log) end
      log.count, log.last = log.count + 1, instant
    end
    log.total = log.total + units
    write(log, log.count - 1, instant, log.total)
  end

  -- Records a denial, and forgets all units but the newest `most`.
  local function record(log, units)
    push(log, units)
    local edge = log.total - log.most
    if edge <= log.before then return end
    local dead = search(log, 0, function(_, sum) return sum > edge end)
    log.first, log.count, log.before = (log.first + dead) % log.room, log.count - dead, edge
  end

  -- Whether all units that a limit counts are from the last thousandth of its window.
  local function is_fresh(log, a, b)
    local edge = log.total - b
    if edge < log.before then return false end
    local oldest = entry(log, search(log, 0, function(_, sum) return sum > edge end))
    return (log.now - oldest) * 1000 < a
  end

  -- Stores the head, and sets the key to expire when its last unit has left the longest window.
  local function store(log)
    call('SETRANGE', log.key, 0, head_of(log))
    local ttl_ms = div(log.last + log.keep + 999, 1000) - div(now_us, 1000) + grace_ms
    call('PEXPIRE', log.key, max(ttl_ms, 1))
  end

  -- Returns the log that a key stores, or nil if its value is not a log.
  local function read_log(key)
    local head = redis.pcall('GETRANGE', key, 0, HEAD - 1)
    if type(head) ~= 'string' then
      if not find(head.err, '^WRONGTYPE') then error(head.err) end
      return nil
    end
    local log = { key = key, asked_units = 0, admits = true }
    -- An empty string is not a log. `GETRANGE` cannot tell it from a missing key, but `GET` can.
    if head == '' and not call('GET', key) then return log end
    if #head < HEAD then return nil end
    local magic, last
    magic, log.shift, log.keep, log.most, log.asked, log.before, log.total, last, log.first, log.count, log.room =
      numbers_of(FIELDS, head)
    local numbers = { log.shift, log.keep, log.most, log.asked, log.before, log.total, last }
    for i = 1, #numbers do
      if not (numbers[i] >= 0 and numbers[i] <= MOST) then return nil end
    end
    local used = min(log.first + log.count, log.room)
    if magic ~= 'log1' or log.room < 1 or log.count > log.room or log.first >= log.room
      or log.before > log.total or (log.count == 0) ~= (log.before == log.total)
      or call('STRLEN', key) < HEAD + used * ENTRY then return nil end
    log.last, log.is_stored = last - log.shift, true
    if log.count > 0 and is_stale(log.last + log.keep) then return nil end
    return log
  end

  -- Makes a new log, or a full log in place of a value that cannot be read.
  local function begin(log, a, b, broken)
    log.shift, log.keep, log.most, log.asked, log.before, log.total, log.last = 0, a, b, now_us, 0, 0, 0
    log.first, log.count, log.room = 0, 0, min(FIRST_ROOM, b)
    log.broken, log.is_stored = broken, false
    if broken then log.total, log.count, log.last = b, 1, now_us end
  end

  -- Returns the log of a key, brought to the present. If the key does not exist, this is a new log, and if its value is
  -- not a log, a full log.
  local function look(key, a, b)
    local log = read_log(key)
    if not (log and log.is_stored) then
      local broken = not log
      log = log or { key = key, asked_units = 0, admits = true }
      begin(log, a, b, broken)
    elseif log.count > 0 and log.last > now_us + slack_us then
      local by = log.last - now_us - 1
      log.shift, log.last, log.asked, log.moved = log.shift + by, now_us + 1, now_us, true
    end
    log.now = max(now_us, log.last)
    return log
  end

  -- Makes the log keep enough entries for the policy of a request.
  local function serve(log, a, b)
    if a < log.keep and b < log.most and now_us - log.asked > log.keep then
      log.keep, log.most = a, b
    end
    if a >= log.keep or b >= log.most then
      log.keep, log.most, log.asked = max(a, log.keep), max(b, log.most), now_us
    end
  end

  -- Returns a limit in a request, like `limit_of` of request.lua. `seen` has the logs that this request has already
  -- read.
  function logs.limit_of(seen, key, block)
    local begins, verb, say, _, _, a, b, c, want, least, share, stamp = numbers_of(BLOCK, block)
    local log = seen[key] or look(key, a, b)
    seen[key] = log
    serve(log, a, b)
    local sum
    if not log.broken then _, sum = gone(log, a) end
    if log.is_spoilt and log.is_stored then
      begin(log, a, b, true)
      log.now = now_us
    end
    if log.broken then sum = 0 end
    if c == 1 then sum = max(sum, log.total - b) end
    local left = max(b - (log.total - sum) - log.asked_units, 0)
    local fits = least <= left and log.total - sum <= b
    log.admits = log.admits and fits
    log.asked_units = log.asked_units + least
    local denies = c == 1 and not (fits or log.broken) and least > 0 and log.asked_units <= b
    return {
      log = log, a = a, b = b, gone = sum, denies = denies, begins = begins, verb = verb, say = say, want = want, least = least,
      share = share, stamp = stamp, room = left, admits = log.admits,
    }
  end

  -- Gives back units of the entry with the time `stamp`, and returns how many.
  local function give_back(log, units, stamp, window)
    if not log.is_stored or stamp > log.last or stamp <= log.now - window then return 0 end
    local n = search(log, 0, function(instant) return instant >= stamp end)
    if n == log.count or log.count - n > BEHIND or entry(log, n) ~= stamp then return 0 end
    local before, last = log.before, 0
    if n > 0 then last, before = entry(log, n - 1) end
    local _, sum = entry(log, n)
    units = min(units, sum - before)
    -- An entry that becomes empty is removed, and all entries behind it move up.
    local empty = units == sum - before and 1 or 0
    for at = n + empty, log.count - 1 do
      local instant, other = entry(log, at)
      write(log, at - empty, instant, other - units)
      last = instant
    end
    log.count, log.total, log.last = log.count - empty, log.total - units, max(last, 0)
    return units
  end

  -- Gives back the newest units of a window. `gone` is the sum of all units that have left the window. The entries
  -- behind the units that stay are removed.
  local function uncharge(log, units, gone)
    local given = max(min(units, log.total - gone), 0)
    if given == 0 or log.broken then return 0 end
    local stays = log.total - given
    local n = search(log, 0, function(_, sum) return sum >= stays end)
    -- If no units of the log stay, no entry is kept.
    local kept = stays > log.before and 1 or 0
    local last = 0
    if kept == 1 then
      last = entry(log, n)
      write(log, n, last, stays)
    end
    log.count, log.total, log.last = n + kept, stays, max(last, 0)
    return given
  end

  -- Returns the time until `least` units fit. It is 0 if they fit now, or never fit.
  local function wait_of(limit)
    local log = limit.log
    local target = log.total + limit.least - limit.b
    if target <= limit.gone or limit.least > limit.b then return 0 end
    local instant = entry(log, search(log, 0, function(_, sum) return sum >= target end))
    return max(instant + limit.a - now_us, 0)
  end

  -- Carries out the verb on a limit: charges it if its request and its group are admitted, or gives units back. Returns
  -- the reply about the limit.
  function logs.carry_out(limit, admitted, charged)
    local log, units = limit.log, 0
    local changed = log.moved
    if log.broken and not log.is_stored and limit.verb ~= PEEK then
      call('SET', log.key, head_of(log))
      write(log, 0, log.last, log.total)
      log.is_stored, changed = true, true
    end
    if limit.verb == CHECK and charged then
      units = units_of(limit.want, limit.least, limit.share, limit.room)
      if units > 0 then push(log, units) end
    elseif limit.verb == CHARGE or limit.verb == ADD then
      -- To charge more units than the limit at one time would not make denials last longer.
      units = min(limit.want, limit.b)
      if units > 0 then push(log, units) end
    elseif limit.verb == REFUND or limit.verb == CANCEL and limit.stamp == log.last then
      units = give_back(log, limit.want, limit.stamp, limit.a)
    elseif limit.verb == UNCHARGE then
      units = uncharge(log, limit.want, limit.gone)
    end
    -- If a group denies only together with other groups, it counts no denial when the request is admitted.
    if limit.denies and (limit.say ~= DENIES_TOGETHER or not admitted) and (limit.verb == CHECK or limit.verb == REFUSE) then
      if not is_fresh(log, limit.a, limit.b) then
        record(log, limit.least)
        limit.gone, changed = max(limit.gone, log.total - limit.b), true
      end
    end
    if (changed or units > 0) and limit.verb ~= PEEK then store(log) end
    local wait = 0
    if log.broken and not log.is_stored then
      wait = limit.a
    elseif log.total > limit.gone then
      wait = wait_of(limit)
    end
    local used = log.total - limit.gone
    return bytes_of('<Bdddd', flags_of(admitted, limit.admits, log.broken), units, used, wait, used > 0 and log.last or 0)
  end

  return logs
end
