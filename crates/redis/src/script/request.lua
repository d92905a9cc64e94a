-- Decides requests with any verbs and any number of limits: see decide.lua for the format, and states.lua for the
-- states.

  -- Returns the largest debt such that every number in its stored text stays below 2^53 until it has drained.
  local function deepest(state)
    return min(MOST, (MOST - state.now - 1) * state.a)
  end

  -- Whether `units` units fit if the debt may exceed the capacity by `ahead` parts.
  local function fits_later(state, units, ahead)
    local debt = state.held[1] + units * state.b
    return (state.ends or 0) == 0 and debt <= state.c + ahead and debt <= deepest(state)
  end

  -- Returns a limit in a request. If the request has the same limit twice, the second has the room that the first
  -- leaves.
  local function limit_of(record, block)
    local begins, verb, say, kind, tick, a, b, c, want, least, share, stamp =
      numbers_of(BLOCK, block)
    local is_calendar = kind % RULED == CALENDAR
    local mark = sub(block, is_calendar and LONG_MARK or MARK)
    local policy = kind < RULED and { mark = mark, kind = kind, tick = tick, a = a, b = b, c = c }
      or policy_of(mark, numbers(mark, {}))
    policy.turns = is_calendar and turns_in(block) or nil
    local state = state_of(record, policy, verb == REFUND or verb == CANCEL or verb == UNCHARGE)
    local room, fits = room_in(state, record.asked + least)
    if verb == RESERVE then fits = fits_later(state, least, share) end
    if state.is_astray then verb, room, fits = PEEK, 0, false end
    record.admits = record.admits and fits
    room = max(room - record.asked, 0)
    record.asked = record.asked + least
    -- Whether the limit denies a cost that would fit if the limit were unused. Only such denials may count.
    local whole = state.kind == GCRA and state.c / state.b or state.b
    local denies = not fits and not state.is_astray and least > 0 and record.asked <= whole
    return {
      record = record, state = state, begins = begins, verb = verb, say = say, want = want, least = least,
      share = share, stamp = stamp, room = room, admits = record.admits, denies = denies,
    }
  end

  -- Charges every state of a key with units that fit, or that were admitted without asking. This ends a row of denials.
  -- In the states of other policies, the count rises at most to the limit.
  local function charge(record, asked, units)
    for i = 1, #record do
      local state = record[i]
      if not is_over(state) then
        local at = newest(state)
        local much = min(state.held[at] + units * (state.kind == GCRA and state.b or 1), MOST)
        if state == asked then
          state.held[at] = much
        else
          hold(state, max(state.held[at], state.kind == GCRA and state.c or state.b), much)
        end
        if state.most and units > 0 then state.denials = 0 end
      end
    end
  end

  -- Subtracts an amount from a state, first from its excess and then from its newest count. Returns the part that was
  -- subtracted from the count.
  local function take_off(state, much)
    local at, beyond = newest(state), min(state.excess, much)
    local off = min(much - beyond, state.held[at])
    state.excess, state.held[at] = state.excess - beyond, state.held[at] - off
    return off
  end

  -- Gives back units that have not drained since their charge, to the state under which they were charged. Returns how
  -- many units were given back, rounded up, so that the reply never reports too few.
  local function give_back(state, units, stamp)
    local held = state.held
    if not state.is_stored or state.most and state.ends > 0 then return 0 end
    if state.kind == GCRA then
      -- If units were charged before the clock was set back, or the debt was cut, it is not known how many have
      -- drained.
      if state.moved or stamp > state.now + slack_us / state.tick or held[1] >= MOST then return 0 end
      local drained = max(state.now - stamp, 0) * state.a + max(held[1] - state.c, 0)
      local owed = take_off(state, max(units * state.b - drained, 0))
      return div(owed, state.b) + (fmod(owed, state.b) > 0 and 1 or 0)
    end
    return held[1] == stamp and take_off(state, units) or 0
  end

  -- Gives units back to a state that were charged under another policy, `from`, at `charged_us`. Only units come back
  -- that have drained under neither policy. The state either was charged at the same time, or began later with the
  -- count of `from`. Returns true if the state has changed.
  local function give_back_elsewhere(state, units, from, stamp, charged_us)
    local kind, a, tick = state.kind, state.a, state.tick
    local passed_us, at = max(now_us - charged_us, 0), div(charged_us, tick)
    if not state.is_stored or state.moved or state.most and state.ends > 0 or charged_us > now_us + slack_us then return end
    local size, drained = kind == GCRA and state.b or 1, kind == GCRA and (state.now - at) * a or 0
    if from.kind == GCRA then
      -- The quotient is rounded, so it is raised a little, to be on the safe side.
      drained = max(drained, math.ceil(passed_us / from.tick * from.a / from.b * size * (1 + 1e-9)))
    elseif not from.is_stored or from.held[1] ~= stamp then
      return
    end
    local first, is_there = state.held[1], nil
    if kind == GCRA then
      is_there = first < MOST
      drained = drained + max(first - state.c, 0)
    elseif kind == FROM_FIRST then
      is_there = first <= at
    elseif kind == CALENDAR then
      -- Windows of different lengths may end together. A charge in the longer window may be older than the shorter
      -- window.
      is_there = from.kind == CALENDAR and from.c == state.c and first == stamp
    else
      is_there = first == div(at, a)
    end
    local much = units * size - drained
    if not is_there or much <= 0 then return end
    take_off(state, much)
    return true
  end

  -- Gives back units of the debt or the newest count, no matter which charges they belong to.
  local function uncharge(state, units)
    local held, at, size = state.held, newest(state), state.kind == GCRA and state.b or 1
    if not state.is_stored or state.moved or state.most and state.ends > 0 or held[at] >= MOST then return 0 end
    local owed = take_off(state, units * size)
    return div(owed, size) + (fmod(owed, size) > 0 and 1 or 0)
  end

  -- Gives back a reservation, except for the units that have drained since its turn. This is done only if nothing was
  -- charged after it: the newest count must still be what the reservation `left`. Windows have no turns.
  local function undo(state, units, stamp, left)
    local held, at = state.held, newest(state)
    if state.most and state.denials > 0 then return 0 end
    if state.kind ~= GCRA then return held[at] == left and give_back(state, units, stamp) or 0 end
    if not state.is_stored or state.moved or state.most and state.ends > 0 then return 0 end
    local drained = (state.now - stamp) * state.a
    if drained >= left or held[1] ~= left - drained then return 0 end
    -- The reservation's turn comes when the debt that it left has drained to the capacity. If it has more units than
    -- the capacity, its turn comes when all debt before it has drained.
    local size = units * state.b
    local owed = take_off(state, max(size - max(drained - max(left - max(size, state.c), 0), 0), 0))
    return div(owed, state.b) + (fmod(owed, state.b) > 0 and 1 or 0)
  end

  -- Returns how many units are charged to a limit. `charged` says whether its request and its group are admitted.
  local function units_for(limit, charged)
    local state, verb = limit.state, limit.verb
    if verb == ADD or verb == RESERVE and charged then return limit.want end
    if verb == CHECK and charged then return units_of(limit.want, limit.least, limit.share, limit.room) end
    if verb ~= CHARGE then return 0 end
    if state.kind ~= GCRA then return min(limit.want, limit.room) end
    -- Nothing is charged during a penalty.
    if (state.ends or 0) > 0 then return 0 end
    return min(limit.want, div(max(deepest(state) - state.held[1], 0), state.b))
  end

  -- Returns the stored text of a state, and the time at which the state is over.
  local function written(state)
    local held, kind, a, mark, ends = state.held, state.kind, state.a, state.mark, 0
    if state.most then
      ends = state.ends
      mark = format('%s%.0f %.0f ', mark, state.denials, ends)
    end
    if kind == GCRA then
      local text, idle = text_of(mark, held[1], state.now, a, state.c, state.excess)
      return text, max(idle, ends) * state.tick
    end
    local idle = over_at(state, held[1])
    local texts = {}
    for i = 1, #held do texts[i] = format('%.0f', held[i]) end
    if state.excess > 0 then texts[#texts + 1] = format('%.0f', state.excess) end
    return mark .. concat(texts, ' '), max(idle, ends) * state.tick
  end

  -- Stores the states that are not over, until the last of them has drained.
  local function store(record)
    local texts, until_us = {}, 0
    for i = 1, #record do
      if not is_over(record[i]) then
        local text, idle_us = written(record[i])
        texts[#texts + 1] = text
        until_us = max(until_us, idle_us)
      end
    end
    keep(record.key, concat(texts, ';'), until_us)
  end

  -- Carries out the verb on a limit: charges it if its request and its group are admitted, or gives units back. Returns
  -- the reply about the limit.
  local function carry_out(limit, admitted, charged)
    local record, state = limit.record, limit.state
    local units, changed = units_for(limit, charged), record.broken or record.has_changed
    if limit.verb == REFUND or limit.verb == CANCEL or limit.verb == UNCHARGE then
      local before, excess = state.held[1], state.excess
      if limit.verb == REFUND then
        for i = 1, limit.share > 1 and limit.want > 0 and #record or 0 do
          local other = record[i]
          if other ~= state and give_back_elsewhere(other, limit.want, state, limit.stamp, limit.share) then
            changed = true
          end
        end
        units = give_back(state, limit.want, limit.stamp)
      elseif limit.verb == UNCHARGE then
        units = uncharge(state, limit.want)
      else
        units = undo(state, limit.want, limit.stamp, limit.share)
      end
      changed = changed or state.held[1] ~= before or state.excess ~= excess
    else
      charge(record, state, units)
    end
    changed = changed or units > 0
    -- If a group denies only together with other groups, it counts no denial when the request is admitted.
    local denied = limit.denies and (limit.say ~= DENIES_TOGETHER or not admitted)
    local counts = limit.verb == CHECK or limit.verb == REFUSE or limit.verb == RESERVE
    if denied and state.most and counts then
      changed = rules.refuse(state, limit.least) or changed
    end
    if changed and limit.verb ~= PEEK then store(record) end
    local flags = flags_of(admitted, limit.admits, record.broken) + (state.is_astray and 8 or 0)
    local held, kind, reply = state.held, state.kind, nil
    if kind == GCRA then
      reply = bytes_of('<Bdd', flags, units, held[1])
    else
      local first = (kind == FROM_FIRST or kind == CALENDAR) and held[1] or held[1] - state.window
      reply = bytes_of('<Bdd' .. rep('d', #held - 1), flags, units, first, unpack(held, 2))
    end
    -- At its end, the reply has the ticks that are left of a penalty.
    return state.most and reply .. bytes_of('<d', max(state.ends - state.now, 0)) or reply
  end

  -- Whether a request of several limits is admitted. Sets `group` of each limit to the first limit of its group, and
  -- `all` of that first limit to whether all limits of the group admit.
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

  -- Returns the count in a command's reply, or nil if the key's value is not a count. Any other error is one of the
  -- server. The command is then repeated with `call`, so that the script ends with that error.
  local function number_of(...)
    local reply = redis.pcall(...)
    if type(reply) ~= 'table' then return tonumber(reply) end
    local err = reply.err
    if find(err, '^WRONGTYPE') or find(err, '^ERR value is not') or find(err, '^ERR increment') then return nil end
    return call(...)
  end

  -- Carries out a verb on a count of envoyproxy/ratelimit, which is not a state, but a number under a key that names
  -- its window. A value that is not a number, or is too large to be increased, is reported as broken, and left as it
  -- is.
  local function counted(key, block)
    local _, verb, _, _, _, _, _, _, want, _, ttl_s = numbers_of(BLOCK, block)
    local count, given, text = nil, 0, function(number) return format('%.0f', number) end
    if verb == COUNT then
      count = number_of('INCRBY', key, text(want))
    else
      local stored, broken = read(key)
      if not stored and not broken then stored = '0' end
      -- This accepts the same texts as INCRBY, so neither 1.5 nor 007.
      if stored == '0' or stored and match(stored, '^-?[1-9]%d*$') then count = tonumber(stored) end
      if count and verb ~= LOOK_AT_COUNT then given = min(want, max(count, 0)) end
      if given > 0 then count = number_of('DECRBY', key, text(given)) end
    end
    if count and (verb == COUNT or given > 0) then call('EXPIRE', key, text(ttl_s)) end
    if not count then given = 0 end
    return bytes_of('<Bddd', flags_of(true, true, not count), given, 0, count and min(max(count, 0), MOST) or 0)
  end

  -- Decides the limits of one request, and returns their replies in order.
  local function together(first, last)
    local limits, seen, replies = {}, {}, {}
    if byte(ARGV[first], 2) >= COUNT then
      for at = first, last do replies[#replies + 1] = counted(KEYS[at], ARGV[at]) end
      return concat(replies)
    end
    for at = first, last do
      local key = KEYS[at]
      if byte(ARGV[at], 2) == RESET then call('DEL', key) end
      if byte(ARGV[at], 4) == LOG then
        log = log or logs()
        limits[#limits + 1] = log.limit_of(seen, key, ARGV[at])
      else
        seen[key] = seen[key] or look(key)
        limits[#limits + 1] = limit_of(seen[key], ARGV[at])
      end
    end
    local admitted = decide(limits)
    for i = 1, #limits do
      local one = limits[i]
      replies[i] = (one.log and log.carry_out or carry_out)(one, admitted, admitted and one.group.all)
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
  local reply
  if first == last and verb < REFUND and say == DENIES then
    if kind == GCRA then
      reply = alone(KEYS[first], ARGV[first], verb, tick, a, b, c, want, least, share)
    elseif kind == FIXED then
      reply = alone_in_window(KEYS[first], ARGV[first], verb, tick, a, b, want, least, share)
    end
  end
  if not reply then
    together = together or others()
    reply = together(first, last)
  end
  replies[#replies + 1] = reply
  first = last + 1
end
return concat(replies)
