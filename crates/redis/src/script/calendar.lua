-- Windows of the calendar (months, years or weeks, by `c`): at most `b` units in each. The script cannot compute dates.
-- So for each limit a node sends an instant around its own time, the end of the window that contains the instant, and
-- the ends of the next four windows. The script picks the window that contains the server's time. If that time is
-- before the instant, or after the last window but one, the limit denies and is not charged, and the reply has the flag
-- 8.
--
-- A key stores the instant at which its window ends, and the count. So the script can see that a state is over even in
-- a request under another policy, which does not send the ends of these windows.
local TURNS, LONG_MARK = '<dddddd', MARK + 48

  -- Returns the ends of windows in a block.
  local function turns_in(block)
    local turns = { numbers_of(TURNS, block, MARK) }
    turns[7] = nil -- where the block goes on
    return turns
  end

  -- Brings a state to the present, as `stand` of states.lua does.
  local function stand_in_calendar(state, stored)
    local ends, moved = state.turns, false
    local held = stored
    if not ends then
      if now_us >= stored[1] then held = { stored[1], 0 } end
    else
      local at = 2
      while at < #ends and now_us >= ends[at] do at = at + 1 end
      state.is_astray = now_us < ends[1] or at == #ends
      local this, next_one, third = ends[at], ends[at + 1], ends[at + 2]
      if not stored or stored[1] < this then
        held = { this, 0 }
      elseif next_one and stored[1] > next_one then
        -- `before` is when the window before the stored window begins, or an earlier time. It is at the end of this
        -- window or later.
        local before = third and stored[1] > third and next_one or this
        moved = before > now_us + slack_us
        if moved then held = { next_one, stored[2] } end
      end
    end
    state.now, state.window, state.held, state.moved = now_us, 0, held, moved
  end

