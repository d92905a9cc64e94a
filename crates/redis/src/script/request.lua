-- The limits of a request, and what it does with them: see decide.lua, and states.lua for what a limit holds.

  -- The most that a debt can be: until it has drained every number of its text can be counted.
  local function deepest(state)
    return min(MOST, (MOST - state.now - 1) * state.a)
  end

  -- Whether units fit once the debt exceeds the capacity by no more than `ahead` parts.
  local function fits_later(state, units, ahead)
    local debt = state.held[1] + units * state.b
    return (state.ends or 0) == 0 and debt <= state.c + ahead and debt <= deepest(state)
  end

  -- A limit in a request. If it stands there a second time, it has what the first leaves.
  local function limit_of(record, block)
    local begins, verb, say, kind, tick, a, b, c, want, least, share, stamp =
      numbers_of(BLOCK, block)
    local is_month = kind % RULED == MONTH
    local mark = sub(block, is_month and LONG_MARK or MARK)
    local policy = kind < RULED and { mark = mark, kind = kind, tick = tick, a = a, b = b, c = c }
      or policy_of(mark, numbers(mark, {}))
    policy.months = is_month and months_in(block) or nil
    local state = state_of(record, policy)
    local room, fits = room_in(state, record.asked + least)
    if verb == RESERVE then fits = fits_later(state, least, share) end
    if state.is_astray then verb, room, fits = PEEK, 0, false end
    record.admits = record.admits and fits
    room = max(room - record.asked, 0)
    record.asked = record.asked + least
    -- Whether the limit denies what fits in it when it is unused: such a denial may count.
    local whole = state.kind == GCRA and state.c / state.b or state.b
    local denies = not fits and not state.is_astray and least > 0 and record.asked <= whole
    return {
      record = record, state = state, begins = begins, verb = verb, say = say, want = want, least = least,
      share = share, stamp = stamp, room = room, admits = record.admits, denies = denies,
    }
  end

  -- A state is over when it has drained and is not the one that is asked.
  local function is_over(state)
    return not state.is_asked and is_idle(state) and (state.ends or 0) == 0
  end

  -- Charges every state with units that fit, or that were admitted without asking. That ends a row of denials.
  local function charge(record, units)
    for i = 1, #record do
      local state = record[i]
      if not is_over(state) then
        local at = newest(state)
        state.held[at] = min(state.held[at] + units * (state.kind == GCRA and state.b or 1), MOST)
        if state.most and units > 0 then state.denials = 0 end
      end
    end
  end

  -- Gives back what has not drained since it was charged, to the state under which it was charged: in another it is
  -- not known what has drained of it. Returns how many units, rounded up: no less is told than is given back.
  local function give_back(state, units, stamp)
    local held = state.held
    if not state.is_stored or state.most and state.ends > 0 then return 0 end
    if state.kind == GCRA then
      -- When units were charged before the clock was set back, or the debt was cut, it is not known what has drained.
      if state.moved or stamp > state.now + slack_us / state.tick or held[1] >= MOST then return 0 end
      local drained = max(state.now - stamp, 0) * state.a + max(held[1] - state.c, 0)
      local owed = min(max(units * state.b - drained, 0), held[1])
      held[1] = held[1] - owed
      return div(owed, state.b) + (fmod(owed, state.b) > 0 and 1 or 0)
    end
    if held[1] ~= stamp then return 0 end
    local at = newest(state)
    units = min(units, held[at])
    held[at] = held[at] - units
    return units
  end

  -- Gives back units that are owed now, or that the newest count has, whichever charges they are of.
  local function uncharge(state, units)
    local held, at, size = state.held, newest(state), state.kind == GCRA and state.b or 1
    if not state.is_stored or state.moved or state.most and state.ends > 0 or held[at] >= MOST then return 0 end
    local owed = min(units * size, held[at])
    held[at] = held[at] - owed
    return div(owed, size) + (fmod(owed, size) > 0 and 1 or 0)
  end

  -- Gives back what has not drained of units that may be used since their turn, if the newest count is what it was
  -- `left` at by their charge: then nothing was charged since. A window knows no turns.
  local function undo(state, units, stamp, left)
    local held, at = state.held, newest(state)
    if state.most and state.denials > 0 then return 0 end
    if state.kind ~= GCRA then return held[at] == left and give_back(state, units, stamp) or 0 end
    if not state.is_stored or state.moved or state.most and state.ends > 0 then return 0 end
    local drained = (state.now - stamp) * state.a
    if drained >= left or held[1] ~= left - drained then return 0 end
    -- Its turn comes when what it left is no more than the capacity; of more than that, when its place begins.
    local size = units * state.b
    local owed = min(max(size - max(drained - max(left - max(size, state.c), 0), 0), 0), held[1])
    held[1] = held[1] - owed
    return div(owed, state.b) + (fmod(owed, state.b) > 0 and 1 or 0)
  end

  -- How many units a limit is charged. `charged` says whether its request and its group are admitted.
  local function units_for(limit, charged)
    local state, verb = limit.state, limit.verb
    if verb == ADD or verb == RESERVE and charged then return limit.want end
    if verb == CHECK and charged then return units_of(limit.want, limit.least, limit.share, limit.room) end
    if verb ~= CHARGE then return 0 end
    if state.kind ~= GCRA then return min(limit.want, limit.room) end
    -- A penalty charges nothing.
    if (state.ends or 0) > 0 then return 0 end
    return min(limit.want, div(max(deepest(state) - state.held[1], 0), state.b))
  end

  -- The text of a state, and until when it counts.
  local function written(state)
    local held, kind, a, mark, ends = state.held, state.kind, state.a, state.mark, 0
    if state.most then
      ends = state.ends
      mark = format('%s%.0f %.0f ', mark, state.denials, ends)
    end
    if kind == GCRA then
      local text, idle = text_of(mark, held[1], state.now, a, state.c)
      return text, max(idle, ends) * state.tick
    end
    local windows = kind == SLIDING and 2 or kind == SEGMENTED and state.c or 1
    local idle = kind == MONTH and held[1] or kind == FROM_FIRST and held[1] + a or (held[1] + windows) * a
    local texts = {}
    for i = 1, #held do texts[i] = format('%.0f', held[i]) end
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

  -- Charges a limit, if its request and its group are admitted, or gives back. Returns its reply.
  local function carry_out(limit, admitted, charged)
    local record, state = limit.record, limit.state
    local units, changed = units_for(limit, charged), record.broken or record.has_changed
    if limit.verb == REFUND or limit.verb == CANCEL or limit.verb == UNCHARGE then
      local before = state.held[1]
      if limit.verb == REFUND then
        units = give_back(state, limit.want, limit.stamp)
      elseif limit.verb == UNCHARGE then
        units = uncharge(state, limit.want)
      else
        units = undo(state, limit.want, limit.stamp, limit.share)
      end
      changed = changed or state.held[1] ~= before
    else
      charge(record, units)
    end
    changed = changed or units > 0
    -- What another group admits was not denied.
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
      local first = (kind == FROM_FIRST or kind == MONTH) and held[1] or held[1] - state.window
      reply = bytes_of('<Bdd' .. rep('d', #held - 1), flags, units, first, unpack(held, 2))
    end
    -- How many ticks of a penalty are left.
    return state.most and reply .. bytes_of('<d', max(state.ends - state.now, 0)) or reply
  end

  -- Whether a request of several limits is admitted. Sets as `group` of each limit the first limit of its group,
  -- whose `all` says whether all limits of the group admit.
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

  -- What a command says of a count; nil if the key holds none. Other errors are the store's own: sent again, the command
  -- ends the call with them.
  local function number_of(...)
    local reply = redis.pcall(...)
    if type(reply) ~= 'table' then return tonumber(reply) end
    local err = reply.err
    if find(err, '^WRONGTYPE') or find(err, '^ERR value is not') or find(err, '^ERR increment') then return nil end
    return call(...)
  end

  -- A count of envoyproxy/ratelimit: no state, but a number under a key that names its window. What is no number, or
  -- too large to count on, is told as broken, and left as it is.
  local function counted(key, block)
    local _, verb, _, _, _, _, _, _, want, _, ttl_s = numbers_of(BLOCK, block)
    local count, given, text = nil, 0, function(number) return format('%.0f', number) end
    if verb == COUNT then
      count = number_of('INCRBY', key, text(want))
    else
      local stored, broken = read(key)
      if not stored and not broken then stored = '0' end
      -- As INCRBY reads it: neither 1.5 nor 007.
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
  if first == last and kind == GCRA and verb < REFUND and say == DENIES then
    reply = alone(KEYS[first], ARGV[first], verb, tick, a, b, c, want, least, share)
  end
  if not reply then
    together = together or others()
    reply = together(first, last)
  end
  replies[#replies + 1] = reply
  first = last + 1
end
return concat(replies)
