local panel = require("panel")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

--- A screen of so many columns and rows; `is_colour`: what is written is kept with its colour before it.
local function screen_of(width, height, is_colour)
  local screen = { rows = {}, row = 1, colour = "", width = width, height = height }
  function screen.getSize()
    return screen.width, screen.height
  end
  function screen.isColour()
    return is_colour
  end
  function screen.setCursorPos(_, y)
    screen.row = y
  end
  function screen.write(text)
    expect(#text <= screen.width).to_be(true)
    screen.rows[screen.row] = screen.colour .. text:gsub("%s+$", "")
  end
  function screen.clear()
    screen.rows = {}
  end
  function screen.setTextColour(colour)
    screen.colour = colour == "white" and "" or "<" .. colour .. ">"
  end
  function screen.setBackgroundColour() end
  function screen.getPaletteColour() end
  function screen.setPaletteColour() end
  function screen.setCursorBlink() end
  function screen.setTextScale(scale)
    screen.width, screen.height = width / scale, height / scale
  end
  return screen
end

--- Sits in front of a screen; `pressed`: events, of which the first `before` are there before anything is drawn.
local function sit(screen, pressed, before)
  local queue = {}
  local function come(count)
    for _ = 1, math.min(count, #pressed) do
      queue[#queue + 1] = table.remove(pressed, 1)
    end
  end
  come(before or 0)
  term = {
    current = function()
      return screen
    end,
  }
  peripheral = {
    getType = function(name)
      return name == "top" and "monitor" or nil
    end,
    wrap = function()
      return screen
    end,
  }
  colors = setmetatable({}, {
    __index = function(_, name)
      return name
    end,
  })
  keys = {
    getName = function(key)
      return key
    end,
  }
  os.queueEvent = function(...)
    queue[#queue + 1] = { ... }
  end
  os.pullEventRaw = function()
    if #queue == 0 then
      come(1)
    end
    local event = assert(table.remove(queue, 1), "nobody presses anything any more")
    return table.unpack(event)
  end
end

local BUTTONS = {
  { "b", "[B]ack", goes = 1 },
  { "a", "[A]pprove", goes = 3 },
  { "r", "[R]eject", goes = 2 },
  { "l", "[L]ist", goes = 1 },
}

describe("panel", function()
  it("shows all words of the keys where there is room, and the last of them longest", function()
    for width, wanted in pairs({
      [51] = "[B]ack [A]pprove [R]eject [L]ist",
      [26] = "[B] [A]pprove [R]eject [L]",
      [24] = "[B] [A]pprove [R] [L]",
      [20] = "[B] [A] [R] [L]",
    }) do
      local screen = screen_of(width, 13)
      sit(screen, { { "char", "A" } })
      assert(panel.open())
      panel.show("title", { { text = "a row", is = "text" } })
      expect(panel.choose(BUTTONS)).to_be("a")
      expect({ screen.rows[1], screen.rows[2], screen.rows[13] }).to_be({ "title", "a row", wanted })
    end
  end)

  it("colours rows where there are colours, and only there", function()
    local rows =
      { { text = "+a", is = "added" }, { text = "-b", is = "removed" }, { text = " c", is = "text" } }
    for _, is_colour in ipairs({ true, false }) do
      local screen = screen_of(51, 19, is_colour)
      sit(screen, {})
      assert(panel.open())
      panel.show("title", rows)
      local wanted = is_colour and { "<lime>+a", "<red>-b", " c" } or { "+a", "-b", " c" }
      expect({ screen.rows[2], screen.rows[3], screen.rows[4] }).to_be(wanted)
    end
  end)

  it("drops the keys that were pressed before its keys were drawn", function()
    sit(screen_of(51, 19), { { "char", "x" }, { "char", "a" }, { "char", "l" } }, 2)
    assert(panel.open())
    panel.show("", {})
    expect(panel.choose(BUTTONS)).to_be("l")
  end)

  it("takes arrows, touches of words and rows, and what it shows nothing of", function()
    local screen = screen_of(51, 19)
    local at_list = ("[B]ack [A]pprove [R]eject "):len() + 2
    sit(screen, {
      { "mouse_click", 1, 1, 3 },
      { "mouse_click", 1, at_list, 19 },
      { "mouse_click", 1, 5, 2 },
      { "key", "left" },
      { "char", "q" },
      { "term_resize" },
    })
    assert(panel.open())
    panel.show("", { { text = "1 first", key = "1" } })
    local known = { q = true, ["1"] = true }
    local chosen = {}
    for index = 1, 5 do
      chosen[index] = panel.choose(BUTTONS, known)
    end
    expect(chosen).to_be({ "l", "1", "b", "q", "resize" })
  end)

  it("takes a touch of its own monitor only, at letters that fit", function()
    local screen = screen_of(24, 12)
    sit(
      screen,
      { { "mouse_click", 1, 1, 24 }, { "monitor_touch", "left", 1, 24 }, { "monitor_touch", "top", 9, 24 } }
    )
    assert(panel.open("top"))
    panel.show("", {})
    expect(panel.choose(BUTTONS)).to_be("a")
    expect({ screen.width, screen.height }).to_be({ 48, 24 })
    expect({ panel.open("left") }).to_be({ nil, "There is no monitor left at this computer." })
    sit(screen_of(8, 4), {})
    expect({ panel.open("top") }).to_be({ nil, "The screen has 16 x 8 letters; 20 x 8 are needed." })
  end)

  it("asks for a line, and shows a secret as stars", function()
    for _, is_secret in ipairs({ true, false }) do
      local screen = screen_of(26, 20)
      local seen
      sit(screen, {
        { "char", "4" },
        { "paste", "87" },
        { "key", "backspace" },
        { "char", "9" },
        { "key", "up" },
        { "key", "enter" },
      })
      assert(panel.open())
      panel.show("", {})
      local pull = os.pullEventRaw
      os.pullEventRaw = function()
        seen = screen.rows[19]
        return pull()
      end
      expect(panel.line("Why is this so, and what is to be done?", is_secret)).to_be("489")
      expect(seen).to_be(is_secret and "> ***" or "> 489")
      expect({ screen.rows[16], screen.rows[17] }).to_be({ "Why is this so, and what", "is to be done?" })
    end
  end)

  it("goes back with Tab, and leaves with Ctrl-T", function()
    sit(screen_of(51, 19), { { "char", "x" }, { "key", "tab" }, { "terminate" } })
    assert(panel.open())
    panel.show("", {})
    expect(panel.line("Why?")).to_be(nil)
    local ok, why = pcall(panel.choose, BUTTONS)
    expect({ ok, why == panel.LEFT }).to_be({ false, true })
  end)

  it("asks for a key of its own before it is sure", function()
    for key, wanted in pairs({ y = true, x = false }) do
      sit(screen_of(51, 19), { { "char", "a" }, { "char", key } })
      assert(panel.open())
      panel.show("", {})
      expect(panel.is_sure("Approve?")).to_be(wanted)
    end
  end)
end)
