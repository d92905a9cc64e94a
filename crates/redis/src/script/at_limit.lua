-- The changes that a denial makes at a policy's limit: see `AtLimit` in the core. If a policy has such rules, 8 is
-- added to its kind, and its mark has four numbers after the usual five:
--   most      the newest count (GCRA: the debt in parts) up to which denials are charged; 0: denials are not charged
--   after     the number of denials in a row that start a penalty; 0: there are no penalties
--   length    the length of the penalty, in ticks
--   extended  1 if a denial during the penalty moves its end to a whole length after the denial
-- After the mark a key stores `denials`, the number of denials in a row, then `ends`, the tick in which the penalty
-- ends, and then the state of the algorithm. The state drains during a penalty as at any other time, and when a penalty
-- begins, its end is not set before the state has drained. Units that are admitted under other policies of the key
-- during the penalty still count after it. A denial is not charged if the debt would rise by less than a unit and by
-- less than a thousandth of the longest wait. A denial does not move the end of a penalty by less than a thousandth of
-- the penalty. The core has the same rules.
local RULED = 8
local GRANULES = 1000
local RULES_MARK = '^%d+ %d+ %d+ %d+ %d+ %d+ %d+ %d+ %d+ '

-- Makes the functions for these rules. A call makes them when it first needs them.
local function at_limit()
  local rules = {}

  -- Reads these rules from the numbers of a text, beginning at `from`. Returns the index of the first number after the
  -- rules, or nil if the rules are missing.
  function rules.take(state, found, from)
    state.most, state.after, state.length, state.extended = unpack(found, from, from + 3)
    state.denials, state.ends = found[from + 4] or 0, found[from + 5] or 0
    return state.extended and from + 6
  end

  -- Brings the penalty to the present: `ends` is set to 0 if the penalty is over. If the end is further ahead than a
  -- penalty and the slack, it was written before the clock was set back.
  function rules.stand(state)
    local last = state.now + state.length
    if state.ends > last + slack_us / state.tick then state.ends, state.moved = last + 1, true end
    if state.ends <= state.now then state.ends = 0 end
  end

  -- Lets a new state begin with the penalty of another state, but cuts it to the length of the new policy's penalty.
  function rules.carry(state, other)
    if state.after == 0 or (other.ends or 0) == 0 then return end
    local ends = math.ceil(other.ends * other.tick / state.tick)
    state.ends = max(state.ends, min(ends, state.now + state.length))
  end

  -- Returns the first tick at which no unit of the state counts any more.
  local function drained(state)
    local kind, held, a, c = state.kind, state.held, state.a, state.c
    if kind == GCRA then return state.now + div(held[1], a) + (fmod(held[1], a) > 0 and 1 or 0) end
    if kind == FIXED then return (held[1] + 1) * a end
    if kind == FROM_FIRST then return held[1] + a end
    if kind == SLIDING then
      local count, window = held[3], held[1] + 1
      if count == 0 then count, window = held[2], held[1] end
      -- If the rounding is down, a share of less than a unit counts as none.
      return window * a + (c == 1 and count > 0 and a - div(a - 1, count) or a)
    end
    local age = 0
    while age < c - 1 and held[age + 2] == 0 do age = age + 1 end
    return (held[1] - age + c) * a
  end

  -- Counts a denial of `cost` units, a cost that would fit in an unused limit. Returns whether the state has changed.
  function rules.refuse(state, cost)
    if state.ends > 0 then
      local ends = state.now + state.length
      if state.extended == 0 or (ends - state.ends) * GRANULES < state.length then return false end
      state.ends = ends
      return true
    end
    local held, changed = state.held, state.after > 0
    if state.most > 0 then
      local at = state.kind == SLIDING and 3 or state.kind == GCRA and 1 or 2
      local charged = min(held[at] + cost * (state.kind == GCRA and state.b or 1), state.most)
      local raised = charged - held[at]
      -- The parts that drain in the longest wait. `most` is the capacity plus these parts, minus a unit.
      local wait = state.kind == GCRA and state.most - (state.c - state.b) or 0
      if raised > 0 and (raised * GRANULES >= wait or raised >= state.b) then held[at], changed = charged, true end
    end
    if state.after > 0 then
      state.denials = state.denials + 1
      if state.denials >= state.after then
        state.denials, state.ends = 0, max(state.now + state.length, drained(state))
      end
    end
    return changed
  end

  return rules
end
