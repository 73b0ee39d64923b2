-- luacheck: globals keys multishell window
local Client = require("client")
local computer = require("computer")
local json = require("json")
local mirror = require("mirror")
local screen = require("screen")
local spec = require("spec")
local status = require("status")
local typing = require("typing")
local describe, it, expect = spec.describe, spec.it, spec.expect

local machine, client, timer, wait_s

--- A computer with a window over its terminal, welcome at its server.
local function begin(devices)
  machine = computer.new({ look_ms = 0 })
  computer.peripherals(devices or {})
  local native = os.startTimer
  os.startTimer = function(seconds)
    timer, wait_s = native(seconds), seconds
    return timer
  end
  window = dofile("cc_client/simulator/rom/apis/window.lua")
  screen.open()
  client = Client.boot(machine):welcome(1)
end

local function finish()
  client.session:finish("the spec is over")
  screen.close()
  window, multishell, keys, peripheral = nil, nil, nil, nil
end

--- Time goes on, and the timer of the next look comes.
local function pass(ms)
  machine.now_ms = machine.now_ms + ms
  mirror.event({ "timer", timer })
end

local function watch(number, of, more)
  local message = { type = "watch", watch = number, of = of, lease_s = 20 }
  for key, value in pairs(more or {}) do
    message[key] = value
  end
  client:receive(message)
end

--- The rows of a picture as `{text, fg, bg}` by their numbers.
local function rows_of(picture)
  local rows, at, bytes = {}, 1, picture.bytes or ""
  while at <= #bytes do
    local y, size = bytes:byte(at, at + 1)
    local text, fg, bg = bytes:sub(at + 2, at + 1 + size), "", ""
    at = at + 2 + size
    local runs = bytes:byte(at)
    for run = 1, runs do
      local cells, colours = bytes:byte(at + 2 * run - 1, at + 2 * run)
      fg = fg .. ("%x"):format(math.floor(colours / 16)):rep(cells)
      bg = bg .. ("%x"):format(colours % 16):rep(cells)
    end
    at = at + 1 + 2 * runs
    rows[y] = { text, fg, bg }
  end
  return rows
end

--- The bytes that pictures took so far, with what a socket puts around each, about.
local function bytes_sent()
  local total = 0
  for _, one in ipairs(client.sent) do
    if one.type == "picture" then
      local header = {}
      for key, value in pairs(one) do
        header[key] = key ~= "bytes" and value or nil
      end
      total = total + #json.encode(header) + 1 + #(one.bytes or "") + 8
    end
  end
  return total
end

describe("mirror", function()
  it("sends a whole picture first, then the rows that change, and nothing while nothing does", function()
    begin()
    term.write("hello")
    pass(1000)
    expect(client:count("picture")).to_be(0)
    watch(7)
    local first = client:last_of("picture")
    expect({ first.watch, first.n, first.whole, first.width, first.height }).to_be({ 7, 1, true, 51, 19 })
    expect({ first.x, first.y, first.blink, first.palette }).to_be({ 6, 1, false })
    local rows = rows_of(first)
    expect(#rows).to_be(19)
    expect(rows[1]).to_be({ "hello", ("0"):rep(51), ("f"):rep(51) })
    pass(250)
    pass(250)
    expect(client:count("picture")).to_be(1)
    -- It looks at most four times in a second.
    expect(wait_s).to_be(0.25)
    term.setCursorPos(50, 3)
    term.setTextColour(16384)
    term.write("\149!!")
    pass(250)
    local second = client:last_of("picture")
    expect({ second.n, second.whole, second.x }).to_be({ 2, false, 52 })
    expect(rows_of(second)).to_be({
      [3] = { (" "):rep(49) .. "\149!", ("0"):rep(49) .. "ee", ("f"):rep(51) },
    })
    term.setPaletteColour(2, 1, 0.5, 0)
    term.setCursorPos(-5, 99)
    term.setCursorBlink(true)
    pass(250)
    local third = client:last_of("picture")
    expect({ third.body, third.x, third.y, third.blink }).to_be({ nil, 0, 20, true })
    expect(third.palette:sub(7, 12)).to_be("ff8000")
    finish()
  end)

  it("goes on as long as it is renewed, and ends by itself, when told to, or with the session", function()
    begin()
    watch(1)
    for _ = 1, 3 do
      machine.now_ms = machine.now_ms + 15000
      watch(1, nil, { heard = 1 })
    end
    term.write("a")
    pass(250)
    expect(client:count("picture")).to_be(2)
    machine.now_ms = machine.now_ms + 20001
    mirror.tick()
    term.write("b")
    pass(250)
    expect(client:count("picture")).to_be(2)
    -- What it does not know any more begins anew.
    watch(1)
    expect(client:last_of("picture").whole).to_be(true)
    watch(1, nil, { lease_s = 0 })
    term.write("c")
    pass(250)
    expect(client:count("picture")).to_be(3)
    watch(2)
    client.session:finish("gone")
    local before = #client.sent
    term.write("d")
    pass(250)
    expect(#client.sent).to_be(before)
    finish()
  end)

  it("stays under 4 kB in any second, and shows each row in the end", function()
    begin()
    watch(1)
    local seen, worst, last = {}, 0, { 0 }
    for step = 1, 80 do
      for y = 1, 19 do
        term.setCursorPos(1, y)
        local text, colours = {}, {}
        for x = 1, 51 do
          text[x] = string.char(33 + (step * 7 + x * y) % 90)
          colours[x] = ("%x"):format((step + x + y) % 16)
        end
        term.blit(table.concat(text), table.concat(colours), table.concat(colours):reverse())
      end
      pass(250)
      local now = bytes_sent()
      last[#last + 1] = now
      worst = math.max(worst, now - last[math.max(1, #last - 4)])
      for y in pairs(rows_of(client:last_of("picture"))) do
        seen[y] = (seen[y] or 0) + 1
      end
      -- All of it came.
      watch(1, nil, { heard = client:last_of("picture").n })
    end
    expect(worst <= 4000).to_be(true)
    expect(bytes_sent() > 40000).to_be(true)
    for y = 1, 19 do
      expect((seen[y] or 0) > 3).to_be(true)
    end
    finish()
  end)

  it("sends no more when nothing is heard of what it sent", function()
    begin()
    watch(1)
    local function scroll(count)
      for step = 1, count do
        for y = 1, 19 do
          term.setCursorPos(1, y)
          term.write(("%d "):format(step * y):rep(20):sub(1, 51))
        end
        pass(1000)
      end
    end
    machine.now_ms = machine.now_ms + 1000
    client:receive({ type = "watch", watch = 1, lease_s = 1000 })
    scroll(60)
    local held = bytes_sent()
    expect(held > 20000 and held < 30000).to_be(true)
    client:receive({ type = "watch", watch = 1, lease_s = 1000, heard = client:last_of("picture").n })
    scroll(1)
    expect(bytes_sent() > held).to_be(true)
    expect(client:last_of("picture").whole).to_be(false)
    finish()
  end)

  it("sends the whole again where the size is another, and says when there is nothing to see", function()
    begin()
    watch(1)
    local parent = term.native()
    local native = parent.getSize
    parent.getSize = function()
      return 26, 20
    end
    pass(1000)
    local picture = client:last_of("picture")
    expect({ picture.whole, picture.width, picture.height, #rows_of(picture) }).to_be({ true, 26, 20, 20 })
    parent.getSize = native
    screen.close()
    pass(1000)
    pass(1000)
    expect(client:count("unseen")).to_be(1)
    expect(#client:last_of("unseen").message > 0).to_be(true)
    screen.open()
    pass(1000)
    expect(client:last_of("picture").whole).to_be(true)
    finish()
  end)

  it("cuts what is larger than any screen, and has room for eight", function()
    begin({ huge = computer.monitor(400, 200) })
    watch(1, "huge", { lease_s = 1000 })
    for _ = 1, 20 do
      pass(1300)
    end
    local picture, whole = client:last_of("picture"), {}
    expect({ picture.width, picture.height }).to_be({ 162, 81 })
    for _, one in ipairs(client.sent) do
      for y in pairs(one.type == "picture" and rows_of(one) or {}) do
        whole[y] = true
      end
    end
    expect(#whole).to_be(81)
    for number = 2, 8 do
      watch(number, "none" .. number)
      pass(1300)
    end
    watch(9, "none9")
    expect(client:last_of("unseen").message).to_contain("More than 8 screens")
    expect(client:last_of("unseen").watch).to_be(9)
    finish()
  end)

  it("sees what any program draws on a monitor while it is watched, once, and leaves no trace", function()
    local devices = { left = computer.monitor(20, 5) }
    begin(devices)
    local native = peripheral.call
    local wrapped = peripheral.wrap("left")
    wrapped.write("before")
    watch(1, "left")
    expect(status.get("watched")).to_be("Watched from outside: the monitor left.")
    expect(rows_of(client:last_of("picture"))[1][1]).to_be("")
    expect(peripheral.call ~= native).to_be(true)
    wrapped.setCursorPos(1, 2)
    wrapped.write("after")
    pass(250)
    expect(rows_of(client:last_of("picture"))[2][1]).to_be("after")
    expect(devices.left.log).to_be("beforeafter")
    wrapped.setTextScale(2)
    wrapped.setCursorPos(1, 1)
    wrapped.write("large")
    pass(1300)
    expect({ client:last_of("picture").width, client:last_of("picture").whole }).to_be({ 10, true })
    expect(rows_of(client:last_of("picture"))[1][1]).to_be("large")
    devices.left = nil
    pass(1300)
    expect(client:last_of("unseen").message).to_contain("no monitor left")
    watch(1, "left", { lease_s = 0 })
    expect(peripheral.call).to_be(native)
    expect(status.get("watched")).to_be(nil)
    finish()
  end)

  it("leaves what somebody else has put over it", function()
    begin({ left = computer.monitor(20, 5) })
    local native = peripheral.call
    watch(1, "left")
    local spy = peripheral.call
    local other = function(...)
      return spy(...)
    end
    peripheral.call = other
    watch(1, "left", { lease_s = 0 })
    expect(peripheral.call).to_be(other)
    watch(2, "left")
    expect(peripheral.call).to_be(other)
    peripheral.call("left", "write", "once")
    pass(1300)
    expect(rows_of(client:last_of("picture"))[1][1]).to_be("once")
    peripheral.call = spy
    watch(2, "left", { lease_s = 0 })
    expect(peripheral.call).to_be(native)
    finish()
  end)

  it("lists what can be watched", function()
    begin({
      right = computer.monitor(10, 3),
      left = computer.monitor(20, 5),
      chest = { types = { "x" }, methods = {} },
    })
    client:receive({ type = "look", look = 3 })
    local answer = client:last_of("screens")
    expect(answer.look).to_be(3)
    expect(json.decode(answer.bytes)).to_be({
      { width = 51, height = 19 },
      { of = "left", width = 20, height = 5 },
      { of = "right", width = 10, height = 3 },
    })
    finish()
  end)
end)

describe("typing", function()
  local function type_keys(number, list)
    client:receive({ type = "keys", keys = number }, json.encode(json.array(list)))
  end

  --- What waits in the queue of the computer, as texts; our own event is handed over.
  local function queued()
    local texts = {}
    for _, event in ipairs(machine.events) do
      if event[1]:find("^cc_orchestrator") then
        typing.event(event)
      else
        local words = {}
        for index = 1, event.n do
          words[index] = tostring(event[index])
        end
        texts[#texts + 1] = table.concat(words, " ")
      end
    end
    machine.events = {}
    return texts
  end

  local function begin_typing()
    begin()
    keys = { enter = 257, x = 88, leftCtrl = 341 }
    queued()
  end

  it("queues what a keyboard makes, and says so when it was taken", function()
    begin_typing()
    type_keys(
      1,
      { { paste = "ls \233" }, { key = "enter" }, { char = "x" }, { char = "?" }, { terminate = true } }
    )
    expect(client:count("keyed")).to_be(0)
    expect(queued()).to_be({
      "paste ls \233",
      "key 257 false",
      "key_up 257",
      "key 88 false",
      "char x",
      "key_up 88",
      "char ?",
      "terminate",
    })
    local answer = client:last_of("keyed")
    expect({ answer.keys, answer.ok }).to_be({ 1, true })
    -- Nothing is typed twice.
    type_keys(1, { { char = "x" } })
    expect(queued()).to_be({})
    expect(client:count("keyed")).to_be(1)
    finish()
  end)

  it("types all of it or nothing", function()
    begin_typing()
    local wrong = {
      {},
      { { key = "reboot" } },
      { { key = 5 } },
      { { char = "xy" } },
      { { char = "\n" } },
      { { char = "\149" } },
      { { paste = "a\nb" } },
      { { paste = ("x"):rep(513) } },
      { { terminate = false } },
      { { char = "x", key = "enter" } },
      { "x" },
      { { char = "x" }, { shutdown = true } },
    }
    local many = {}
    for index = 1, 41 do
      many[index] = { char = "x" }
    end
    wrong[#wrong + 1] = many
    for number, list in ipairs(wrong) do
      type_keys(number, list)
      expect({ client:last_of("keyed").keys, client:last_of("keyed").code }).to_be({ number, "bad_keys" })
    end
    expect(queued()).to_be({})
    local body = { offset = 0, total = 2, sha256 = ("0"):rep(64) }
    client.session:receive(json.encode({ type = "keys", keys = 99, body = body }) .. "\n[]", true)
    expect(client:last_of("keyed").code).to_be("bad_keys")
    finish()
  end)

  it("types nothing where it is not seen, or would go elsewhere", function()
    begin_typing()
    multishell = {
      getCount = function()
        return 2
      end,
      getFocus = function()
        return 2
      end,
    }
    type_keys(1, { { char = "x" } })
    expect(client:last_of("keyed").code).to_be("other_tab")
    multishell.getFocus = function()
      return 1
    end
    type_keys(2, { { char = "x" } })
    expect(#queued()).to_be(3)
    multishell = nil
    screen.close()
    type_keys(3, { { char = "x" } })
    expect(client:last_of("keyed").code).to_be("unseen")
    expect(queued()).to_be({})
    finish()
  end)

  it("says when nobody knows whether it was taken", function()
    begin_typing()
    type_keys(1, { { char = "x" } })
    machine.now_ms = machine.now_ms + 2000
    typing.tick()
    expect(client:count("keyed")).to_be(0)
    machine.now_ms = machine.now_ms + 1001
    typing.tick()
    expect(client:last_of("keyed").code).to_be("unknown")
    queued()
    expect(client:count("keyed")).to_be(1)
    finish()
  end)
end)
