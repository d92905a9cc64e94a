-- Reads the states that a key stores, and brings them to the present. The text from at_limit.lua up to `return
-- together` of request.lua is the body of one function, `others`, which runs only when a call first needs it, since
-- making a dozen functions takes the server as long as several decisions.

  local gmatch, rep = string.gmatch, string.rep
  local rules, log

  -- Adds the numbers of a text to `found` and returns `found`, or nil if the text has anything but numbers.
  local function numbers(text, found)
    if not find(text, '^[%d ]+$') then return nil end
    for number in gmatch(text, '%d+') do
      local value = tonumber(number)
      if value > MOST then return nil end
      found[#found + 1] = value
    end
    return found
  end

  -- For each kind, the maximum of `c`, the policy's last number: the capacity, the rounding, the number of segments,
  -- the kind of calendar windows, or unused.
  local MOST_OF_C = { [GCRA] = MOST, [FIXED] = 0, [FROM_FIRST] = 0, [SLIDING] = 2, [SEGMENTED] = 64, [CALENDAR] = 8 }

  -- Whether a state of this kind may be stored as `count` numbers.
  local function is_length(kind, c, count)
    if kind == GCRA then return count >= 2 and count <= 4 end
    if kind == SLIDING then return count == 3 or count == 4 end
    return count == (kind == SEGMENTED and c + 1 or 2)
  end

  -- Returns the tick at which a window no longer counts, computed from its first stored number.
  local function over_at(state, first)
    local kind, a = state.kind, state.a
    if kind == CALENDAR then return first end
    if kind == FROM_FIRST then return first + a end
    return (first + (kind == SLIDING and 2 or kind == SEGMENTED and state.c or 1)) * a
  end

  -- Brings a state to the present: sets `now`, `window`, `held` and, if the clock was set back, `moved`.
  --   GCRA        a tick drains `a` parts, a unit has `b`, the capacity is `c`; holds the debt in parts
  --   FIXED       window a, limit b;              holds the window's number, count
  --   FROM_FIRST  window a, limit b;              holds the start, count
  --   SLIDING     window a, limit b, rounding c;  holds the window's number, previous, current
  --   SEGMENTED   segment a, limit b, segments c; holds the segment's number, counts from the newest on
  --   CALENDAR    limit b, windows c;             holds the end of the window, count
  -- GCRA and SLIDING also have an `excess` of the debt or the current count, see decide.lua. The other kinds need no
  -- excess, since a count of any size is gone when its window is over.
  -- `stored` has the stored numbers of the state, or is nil if there is no state.
  local function stand(state, stored)
    local kind, a, c = state.kind, state.a, state.c
    if kind == CALENDAR then
      stand_in_calendar(state, stored)
      state.excess = 0
      if state.most then rules.stand(state) end
      return state
    end
    local now = state.tick == 1 and now_us or div(now_us, state.tick)
    local window = (kind == GCRA or kind == FROM_FIRST) and now or div(now, a)
    local held, moved, excess
    if kind == GCRA then
      held = { 0 }
      if stored then
        held[1], moved = debt_of(stored[1], stored[2], stored[3], now, state.tick, a, c)
        excess = held[1] > 0 and stored[4]
      end
    elseif stored then
      -- The clock may have been set back since this state was written.
      local slack = slack_us / state.tick
      moved = (kind == FROM_FIRST and stored[1] or (stored[1] - 1) * a) > now + slack
      if moved then stored[1] = window + 1 end
    end
    if kind == GCRA then -- done
    elseif kind == FIXED then
      held = stored and stored[1] >= window and stored or { window, 0 }
    elseif kind == FROM_FIRST then
      -- No window begins before the last window did, even if all units of the last window were given back.
      held = stored and stored[2] > 0 and now < stored[1] + a and stored or { max(now, stored and stored[1] or 0), 0 }
    elseif kind == SLIDING then
      held = { window, 0, 0 }
      if stored and stored[1] >= window then held, excess = { unpack(stored, 1, 3) }, stored[4]
      elseif stored and stored[1] == window - 1 then held[2] = stored[3] end
    else
      held = stored
      if not stored or stored[1] < window then
        held = { window }
        local passed = stored and window - stored[1] or c
        for age = 0, c - 1 do held[age + 2] = age >= passed and stored[age - passed + 2] or 0 end
      end
    end
    state.now, state.window, state.held, state.moved, state.excess = now, window, held, moved, excess or 0
    if state.most then rules.stand(state) end
    return state
  end

  -- Returns the index of the newest count, which a charge raises.
  local function newest(state)
    return state.kind == GCRA and 1 or state.kind == SLIDING and 3 or 2
  end

  -- Returns the used units, rounded up.
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

  -- Returns how many units fit, and whether `least` units fit. During a penalty nothing fits.
  local function room_in(state, least)
    if state.most and state.ends > 0 then return 0, false end
    if state.kind == GCRA then return room_of(state.held[1], state.b, state.c, least) end
    local used = used_of(state)
    local room = max(state.b - used, 0)
    return room, used <= state.b and least <= room
  end

  -- For x below z, returns a number from x * y / z to x * y / z + 5.
  local function share_of(x, y, z)
    local product = x * y
    if product > MOST then return min(math.ceil(x / z * y) + 2, y) end
    return div(product, z) + (fmod(product, z) > 0 and 1 or 0)
  end

  -- Sets the newest count of a state (under GCRA, its debt) to `much`, because of units that were admitted under
  -- another policy. The part above `most` becomes excess.
  local function hold(state, most, much)
    local at = newest(state)
    state.held[at] = min(much, (state.kind == GCRA or state.kind == SLIDING) and most or MOST)
    state.excess = min(state.excess + much - state.held[at], MOST)
  end

  -- Lets a new state begin with the units of another state. A window of the same kind and length goes on. In any other
  -- case the used units of the other state count as used just now.
  local function carry(state, other)
    local kind, held = state.kind, other.held
    local is_alike = kind == other.kind and state.a * state.tick == other.a * other.tick
      and (kind ~= SEGMENTED and kind ~= CALENDAR or state.c == other.c) and (kind ~= FROM_FIRST or state.tick == other.tick)
    stand(state)
    -- Converts units, or parts of a unit under GCRA, from the other state's to this state's.
    local function converted(much)
      local size, to = other.kind == GCRA and other.b or 1, kind == GCRA and state.b or 1
      return div(much, size) * to + share_of(fmod(much, size), to, size)
    end
    if kind == GCRA or kind == SLIDING then state.excess = min(converted(other.excess), MOST) end
    if kind == GCRA and other.kind == GCRA then
      hold(state, state.c, converted(held[1]))
    elseif kind == GCRA then
      hold(state, state.c, used_of(other) * state.b)
    elseif is_alike then
      -- If the last request was under another policy, the other state's calendar window may be over, without a new
      -- window in its place.
      if kind ~= CALENDAR or held[1] >= state.held[1] then
        state.held = { unpack(held) }
        if kind == SLIDING then
          state.held[2] = min(held[2], state.b)
          hold(state, state.b, held[3])
        end
      end
    else
      hold(state, state.b, used_of(other))
    end
    if state.most then rules.carry(state, other) end
  end

  -- Fills a state, since a value that could not be read counts as full.
  local function fill(state)
    stand(state)
    state.held[newest(state)] = state.kind == GCRA and state.c or state.b
  end

  local function is_idle(state)
    local sum = 0
    for i = state.kind == GCRA and 1 or 2, #state.held do sum = sum + state.held[i] end
    return sum == 0
  end

  -- Whether a state is over: it has drained, and the request is not under its policy.
  local function is_over(state)
    return not state.is_asked and is_idle(state) and (state.ends or 0) == 0
  end

  -- Returns a state without counts, of the policy whose numbers are in `found`.
  local function policy_of(mark, found)
    local kind, tick, a, b, c = unpack(found, 1, 5)
    local state = { mark = mark, kind = kind % RULED, tick = tick, a = a, b = b, c = c }
    if kind >= RULED then
      rules = rules or at_limit()
      rules.take(state, found, 6)
    end
    return state
  end

  -- Returns the state in a stored text, or nil if the text is not a state.
  local function state_in(text)
    local stored = numbers(text, {})
    if not stored then return nil end
    local is_ruled = stored[1] >= RULED
    local mark = match(text, is_ruled and RULES_MARK or '^%d+ %d+ %d+ %d+ %d+ ')
    if not mark then return nil end
    local state, first = policy_of(mark, stored), is_ruled and 12 or 6
    local kind, a, b, c = state.kind, state.a, state.b, state.c
    if kind < GCRA or kind > SEGMENTED and kind ~= CALENDAR or min(state.tick, a, b) < 1 then return nil end
    if c < (kind == GCRA and b or kind == SEGMENTED and 1 or 0) or c > MOST_OF_C[kind] then return nil end
    if not is_length(kind, c, #stored + 1 - first) then return nil end
    if kind == GCRA and (stored[first + 1] >= a or (stored[first + 2] or 0) > stored[first]) then return nil end
    state.is_stored = true
    state.until_us = max(kind == GCRA and stored[first] + 1 or over_at(state, stored[first]), state.ends or 0) * state.tick
    return stand(state, { unpack(stored, first) })
  end

  -- Reads the states that a key stores. The state that was used last is the first.
  local function look(key)
    local record = { key = key, asked = 0, admits = true }
    local text, broken = read(key)
    local until_us = 0
    for part in gmatch(text and text .. ';' or '', '([^;]*);') do
      local state = state_in(part)
      broken = broken or not state or #record == STATES
      record[#record + 1] = state
      record.has_changed = record.has_changed or state and state.moved
      until_us = max(until_us, state and state.until_us or 0)
    end
    if broken or text and is_stale(until_us) then record = { key = key, asked = 0, admits = true, broken = true } end
    return record
  end

  -- Removes a state from a key that has too many. If none is over, it removes the state that was used longest ago, but
  -- never the state of the largest limit, see decide.lua.
  local function forget_one(record)
    local function limit_of(state) return state.kind == GCRA and state.c / state.b or state.b end
    local largest = 1
    for i = 2, #record do
      if is_over(record[i]) then return table.remove(record, i) end
      if limit_of(record[i]) > limit_of(record[largest]) then largest = i end
    end
    table.remove(record, largest == #record and #record - 1 or #record)
  end

  -- Returns the state of a key under one policy, and puts it first. A new state begins with the units of the state in
  -- which the most are spent. For a verb that only gives units back (`is_brief`), a new state is not stored.
  local function state_of(record, state, is_brief)
    state.is_asked = true
    for i = 1, #record do
      if record[i].mark == state.mark then
        table.insert(record, 1, table.remove(record, i))
        local known = record[1]
        known.is_asked = true
        if state.turns then
          known.turns = state.turns
          stand(known, known.held)
          record.has_changed = record.has_changed or known.moved
        end
        return known
      end
    end
    stand(state)
    if record.broken then fill(state) end
    local best, most, whole = nil, -1, 0
    for i = 1, #record do
      carry(state, record[i])
      local spent = state.kind == GCRA and state.held[1] or used_of(state)
      if spent > most then best, most = record[i], spent end
      whole = max(whole, spent + state.excess)
    end
    if best then
      carry(state, best)
      if state.kind == GCRA or state.kind == SLIDING then state.excess = max(state.excess, whole - most) end
    end
    if is_brief and best then return state end
    record.has_changed = record.has_changed or best ~= nil
    table.insert(record, 1, state)
    if record[STATES + 1] then forget_one(record) end
    return state
  end
