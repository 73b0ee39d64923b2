local pager = require("pager")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local HEIGHT = 5

--- A screen of five rows with the cursor on row `row`; what is pushed out at its top is kept.
local function screen_at(row)
  local screen = { rows = { "", "", "", "", "" }, row = row, gone = {}, asked = 0 }
  function screen.getSize()
    return 51, HEIGHT
  end
  function screen.getCursorPos()
    return 1, screen.row
  end
  function screen.setCursorPos(_, y)
    screen.row = y
  end
  function screen.write(text)
    screen.rows[screen.row] = text
  end
  function screen.clearLine()
    screen.rows[screen.row] = ""
  end
  function screen.scroll(count)
    for _ = 1, count do
      screen.gone[#screen.gone + 1] = table.remove(screen.rows, 1)
      screen.rows[HEIGHT] = ""
    end
  end
  return screen
end

--- Prints numbered lines by way of the pager; `answer(screen)` is asked for an event at each halt.
local function print_lines(screen, count, answer)
  local current = screen
  term = {
    current = function()
      return current
    end,
    redirect = function(target)
      current = target
    end,
  }
  keys = { enter = 28 }
  os.pullEventRaw = function()
    return answer(screen)
  end
  local whole = pager.run(function()
    for number = 1, count do
      current.write("line " .. number)
      local _, row = current.getCursorPos()
      if row < HEIGHT then
        current.setCursorPos(1, row + 1)
      else
        current.scroll(1)
      end
    end
  end)
  expect(current).to_be(screen)
  return whole
end

describe("pager", function()
  it("asks nothing for what fits", function()
    local screen = screen_at(2)
    expect(print_lines(screen, 3, error)).to_be(true)
    expect(screen.rows).to_be({ "", "line 1", "line 2", "line 3", "" })
  end)

  it("waits before a line leaves the screen that nobody can have read", function()
    local screen, seen = screen_at(3), {}
    expect(print_lines(screen, 12, function()
      expect(screen.rows[HEIGHT]).to_contain("more")
      for row = 1, HEIGHT - 1 do
        seen[#seen + 1] = screen.rows[row]
      end
      return "char", " "
    end)).to_be(true)
    local lines = {}
    for number = 1, 12 do
      lines[number] = "line " .. number
    end
    expect(seen).to_be(lines)
    expect(screen.rows).to_be({ "line 9", "line 10", "line 11", "line 12", "" })
  end)

  it("goes on at Enter, and at no other key", function()
    local events = { { "key", 5 }, { "key_up", 28 }, { "timer", 1 }, { "key", 28 } }
    local screen = screen_at(2)
    expect(print_lines(screen, 5, function()
      return table.unpack(table.remove(events, 1))
    end)).to_be(true)
    expect(#events).to_be(0)
  end)

  it("leaves at q and at Ctrl-T, with the prompt taken away", function()
    for _, event in ipairs({ { "char", "q" }, { "char", "Q" }, { "terminate" } }) do
      local screen = screen_at(2)
      expect(print_lines(screen, 50, function()
        return table.unpack(event)
      end)).to_be(false)
      expect(screen.rows).to_be({ "line 1", "line 2", "line 3", "line 4", "" })
    end
  end)

  it("lets an error of what prints through", function()
    local screen = screen_at(2)
    local ok, why = pcall(print_lines, screen, nil, error)
    expect({ ok, why }).to_be({ false, why })
    expect(tostring(why)).to_contain("for")
  end)
end)
