-- The second half of the script: see decide.lua. From at_limit.lua and log.lua up to `return together` it is the body of
-- one function, `others`, which is called when a call first needs it: to make a dozen functions takes the server as long
-- as several decisions.

  local gmatch, rep = string.gmatch, string.rep
  local rules, log

  -- Adds the numbers of a text to `found`; nil if the text is anything else.
  local function numbers(text, found)
    if not find(text, '^[%d ]+$') then return nil end
    for number in gmatch(text, '%d+') do
      local value = tonumber(number)
      if value > MOST then return nil end
      found[#found + 1] = value
    end
    return found
  end

  -- Whether a state of this kind is stored as so many numbers.
  local function is_length(kind, c, count)
    if kind == GCRA then return count == 2 or count == 3 end
    return count == (kind == SEGMENTED and c + 1 or kind == SLIDING and 3 or 2)
  end

  -- Brings a state to the present: sets `now`, `window`, `held` and, if the clock was set back, `moved`.
  --   GCRA        a tick drains `a` parts, a unit has `b`, the capacity is `c`; holds the debt in parts
  --   FIXED       window a, limit b;              holds the window's number, count
  --   FROM_FIRST  window a, limit b;              holds the start, count
  --   SLIDING     window a, limit b, rounding c;  holds the window's number, previous, current
  --   SEGMENTED   segment a, limit b, segments c; holds the segment's number, counts from the newest on
  -- `stored` is what was held when it was stored, nil if that was nothing.
  local function stand(state, stored)
    local kind, a, c = state.kind, state.a, state.c
    local now = state.tick == 1 and now_us or div(now_us, state.tick)
    local window = (kind == GCRA or kind == FROM_FIRST) and now or div(now, a)
    local held, moved
    if kind == GCRA then
      held = { 0 }
      if stored then
        held[1], moved = debt_of(stored[1], stored[2], stored[3], now, state.tick, a, c)
      end
    elseif stored then
      -- Whether the clock was set back since.
      local slack = slack_us / state.tick
      moved = (kind == FROM_FIRST and stored[1] or (stored[1] - 1) * a) > now + slack
      if moved then stored[1] = window + 1 end
    end
    if kind == GCRA then -- done
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
    state.now, state.window, state.held, state.moved = now, window, held, moved
    if state.most then rules.stand(state) end
    return state
  end

  -- The index of the count that grows.
  local function newest(state)
    return state.kind == GCRA and 1 or state.kind == SLIDING and 3 or 2
  end

  -- Units that are used, rounded up.
  local function used_of(state)
    local held, a, b, c, kind = state.held, state.a, state.b, state.c, state.kind
    if kind == GCRA then return div(held[1], b) + (fmod(held[1], b) > 0 and 1 or 0) end
    local used = held[2]
    if kind == SLIDING then
      local into = held[1] > state.window and 0 or state.now - state.window * a
      if c == 0 then used = div(held[2] * (a - into) + a - 1, a)
      elseif c == 1 then used = div(held[2] * (a - into), a) end
      used = used + held[3]
    elseif kind == SEGMENTED then
      for age = 1, c - 1 do used = used + held[age + 2] end
    end
    return used
  end

  -- How many units fit, and whether `least` fit. In a penalty nothing does.
  local function room_in(state, least)
    if state.most and state.ends > 0 then return 0, false end
    if state.kind == GCRA then return room_of(state.held[1], state.b, state.c, least) end
    local used = used_of(state)
    local room = max(state.b - used, 0)
    return room, used <= state.b and least <= room
  end

  -- At least the parts x * y / z, for x below z, and at most five more.
  local function share_of(x, y, z)
    local product = x * y
    if product > MOST then return min(math.ceil(x / z * y) + 2, y) end
    return div(product, z) + (fmod(product, z) > 0 and 1 or 0)
  end

  -- Lets a new state begin with what another holds, at most its own limit. A window of the same length goes on;
  -- otherwise the units used under the other policy count as used just now.
  local function carry(state, other)
    local kind, held = state.kind, other.held
    local is_alike = kind == other.kind and state.a * state.tick == other.a * other.tick
      and (kind ~= SEGMENTED or state.c == other.c) and (kind ~= FROM_FIRST or state.tick == other.tick)
    stand(state)
    if kind == GCRA and other.kind == GCRA then
      local whole, rest = div(held[1], other.b), fmod(held[1], other.b)
      state.held[1] = min(whole * state.b + share_of(rest, state.b, other.b), state.c)
    elseif kind == GCRA then
      state.held[1] = min(used_of(other) * state.b, state.c)
    elseif is_alike then
      state.held = { held[1] }
      for i = 2, #held do state.held[i] = min(held[i], state.b) end
    else
      state.held[newest(state)] = min(used_of(other), state.b)
    end
    if state.most then rules.carry(state, other) end
  end

  -- A state that could not be read counts as full.
  local function fill(state)
    stand(state)
    state.held[newest(state)] = state.kind == GCRA and state.c or state.b
  end

  local function is_idle(state)
    local sum = 0
    for i = state.kind == GCRA and 1 or 2, #state.held do sum = sum + state.held[i] end
    return sum == 0
  end

  -- A state of the policy that these numbers name: what it holds is not set yet.
  local function policy_of(mark, found)
    local kind, tick, a, b, c = unpack(found, 1, 5)
    local state = { mark = mark, kind = kind % RULED, tick = tick, a = a, b = b, c = c }
    if kind >= RULED then
      rules = rules or at_limit()
      rules.take(state, found, 6)
    end
    return state
  end

  -- The state in a text that the key stores; nil if it is none.
  local function state_in(text)
    local stored = numbers(text, {})
    if not stored then return nil end
    local is_ruled = stored[1] >= RULED
    local mark = match(text, is_ruled and RULES_MARK or '^%d+ %d+ %d+ %d+ %d+ ')
    if not mark then return nil end
    local state, first = policy_of(mark, stored), is_ruled and 12 or 6
    local kind, a, b, c = state.kind, state.a, state.b, state.c
    if kind < GCRA or kind > SEGMENTED or min(state.tick, a, b) < 1 then return nil end
    if kind == SEGMENTED and (c < 1 or c > 64) or not is_length(kind, c, #stored + 1 - first) then return nil end
    if kind == GCRA and (stored[first + 2] or 0) > stored[first] then return nil end
    state.is_stored = true
    return stand(state, { unpack(stored, first) })
  end

  -- All that a key stores: its states, the one asked last first.
  local function look(key)
    local record = { key = key, asked = 0, admits = true }
    local text, broken = read(key)
    for part in gmatch(text and text .. ';' or '', '([^;]*);') do
      local state = state_in(part)
      broken = broken or not state or #record == STATES
      record[#record + 1] = state
      record.has_changed = record.has_changed or state and state.moved
    end
    if broken then record = { key = key, asked = 0, admits = true, broken = true } end
    return record
  end

  -- The state of a key under one policy, which becomes its first. A new one begins after the state by which the most
  -- is spent.
  local function state_of(record, state)
    state.is_asked = true
    for i = 1, #record do
      if record[i].mark == state.mark then
        table.insert(record, 1, table.remove(record, i))
        record[1].is_asked = true
        return record[1]
      end
    end
    stand(state)
    if record.broken then fill(state) end
    local best, most
    for i = 1, #record do
      carry(state, record[i])
      local spent = state.kind == GCRA and state.held[1] or used_of(state)
      if not most or spent > most then best, most = record[i], spent end
      record.has_changed = true
    end
    if best then carry(state, best) end
    table.insert(record, 1, state)
    record[STATES + 1] = nil
    return state
  end

  -- A limit in a request. If it stands there a second time, it has what the first leaves.
  local function limit_of(record, block)
    local begins, verb, say, kind, tick, a, b, c, want, least, share, stamp =
      numbers_of(BLOCK, block)
    local mark = sub(block, MARK)
    local policy = kind < RULED and { mark = mark, kind = kind, tick = tick, a = a, b = b, c = c }
      or policy_of(mark, numbers(mark, {}))
    local state = state_of(record, policy)
    local room, fits = room_in(state, record.asked + least)
    record.admits = record.admits and fits
    room = max(room - record.asked, 0)
    record.asked = record.asked + least
    -- Whether the limit denies what fits in it when it is unused: such a denial may count.
    local denies = not fits and least > 0 and record.asked <= (state.kind == GCRA and state.c / state.b or state.b)
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
    local idle = kind == FROM_FIRST and held[1] + a or (held[1] + windows) * a
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
    local units, changed = 0, record.broken or record.has_changed
    if limit.verb == CHECK and charged then
      units = units_of(limit.want, limit.least, limit.share, limit.room)
      charge(record, units)
      changed = changed or units > 0
    elseif limit.verb == ADD then
      units = limit.want
      charge(record, units)
      changed = changed or units > 0
    elseif limit.verb == REFUND then
      local before = state.held[1]
      units = give_back(state, limit.want, limit.stamp)
      changed = changed or units > 0 or state.held[1] ~= before
    end
    -- What another group admits was not denied.
    local denied = limit.denies and (limit.say ~= DENIES_TOGETHER or not admitted)
    if denied and state.most and (limit.verb == CHECK or limit.verb == REFUSE) then
      changed = rules.refuse(state, limit.least) or changed
    end
    if changed and limit.verb ~= PEEK then store(record) end
    local flags = flags_of(admitted, limit.admits, record.broken)
    local held, kind, reply = state.held, state.kind, nil
    if kind == GCRA then
      reply = bytes_of('<Bdd', flags, units, held[1])
    else
      local first = kind == FROM_FIRST and held[1] or held[1] - state.window
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

  -- Decides the limits of one request, and returns their replies in order.
  local function together(first, last)
    local limits, seen, replies = {}, {}, {}
    for at = first, last do
      local key = KEYS[at]
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
