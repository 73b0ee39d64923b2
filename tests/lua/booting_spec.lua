-- luacheck: globals multishell
local desktop = require("desktop")
local slots = require("slots")
local spec = require("spec")
local update = require("update")
local describe, it, expect = spec.describe, spec.it, spec.expect

local OWN = ".cc-orchestrator"

--- A computer with clients in its slots and a pointer; `behave(name)` is what they do.
local function computer_with(clients, pointer, behave)
  local desk = desktop.new()
  local nodes = desk.disk.nodes
  nodes[OWN], nodes[OWN .. "/boot.lua"] = true, desktop.BOOT
  for slot, name in pairs(clients) do
    nodes[OWN .. "/client." .. slot .. ".lua"] = name:find("\n") and name or desktop.client_text(name)
  end
  if pointer then
    assert(slots.write(pointer))
  end
  desk.behave = behave and function(_, name)
    return behave(name, #desk.clients)
  end
  return desk
end

local function pointer_to(slot, state, tries)
  return { slot = slot, state = state, tries = tries or 0, hash = "abc", bad = {} }
end

--- Runs boot.lua as a tab does; the clients that ran, in order.
local function run(desk)
  desk.clients = {}
  desk:drive(assert(loadfile("/.cc-orchestrator/boot.lua")))
  return desk.clients
end

describe("boot", function()
  it("runs the slot that the pointer names, and changes nothing", function()
    local desk = computer_with({ a = "one", b = "two" }, pointer_to("b", "good"))
    local before = desk:tree()
    expect(run(desk)).to_be({ "two" })
    expect(desk:tree()).to_be(before)
  end)

  it("goes back when a client on trial fails before its welcome, and remembers it", function()
    for _, failure in ipairs({ "error", "failed" }) do
      local desk = computer_with({ a = "one", b = "two" }, pointer_to("b", "trial"), function(name)
        if name == "two" and failure == "error" then
          error("a bug")
        end
        return name == "two" and "failed" or "stopped", "cannot"
      end)
      expect(run(desk)).to_be({ "two", "one" })
      expect(slots.read()).to_be({ slot = "a", state = "good", tries = 0, hash = "-", bad = { "abc" } })
    end
  end)

  it("goes back after two starts without a welcome", function()
    local desk = computer_with({ a = "one", b = "two" }, pointer_to("b", "trial"))
    expect({ run(desk), run(desk), run(desk), run(desk) }).to_be({
      { "two" },
      { "two" },
      { "one" },
      { "one" },
    })
    expect(slots.read().bad).to_be({ "abc" })
  end)

  it("goes back in the same breath also when nothing can be written", function()
    local desk = computer_with({ a = "one", b = "two" }, pointer_to("b", "trial"), function(name)
      return name == "two" and "failed" or "stopped"
    end)
    desk.machine.die_at(1)
    expect(run(desk)).to_be({ "two", "one" })
  end)

  it("goes back from a client on trial that runs and says nothing, and remembers it", function()
    for _, waits_for in ipairs({ "nothing", "an event" }) do
      local desk = computer_with({ a = "one", b = "two" }, pointer_to("b", "trial", 1), function(name)
        while name == "two" do
          coroutine.yield(waits_for == "an event" and waits_for or nil)
        end
        return "stopped", "well"
      end)
      expect(run(desk)).to_be({ "two", "one" })
      expect(desk.printed[1]).to_contain("without a welcome")
      expect(slots.read()).to_be({ slot = "a", state = "good", tries = 0, hash = "-", bad = { "abc" } })
    end
  end)

  --- A client on trial in slot b that does one thing after the other, one at each fifth second.
  local function on_trial(steps)
    local desk = computer_with({ a = "one", b = "two" }, pointer_to("b", "trial", 1), function(name)
      if name == "one" then
        return "stopped"
      end
      update.start(nil, "b", "ws://server/computer")
      for _, step in ipairs(steps) do
        for _ = 1, step[2] do
          step[1]()
          coroutine.yield()
        end
      end
      return "stopped"
    end)
    local co = coroutine.create(assert(loadfile("/.cc-orchestrator/boot.lua")))
    assert(coroutine.resume(co))
    for _ = 1, 200 do
      desk.machine.now_ms = desk.machine.now_ms + 5000
      if coroutine.status(co) ~= "dead" then
        assert(coroutine.resume(co, "any"))
      end
    end
    return desk.clients
  end
  local function refused()
    update.dialled()
    update.opened()
  end
  local function nothing() end

  it("goes back from one that arrives and is not welcome, but waits for a server that is away", function()
    expect(on_trial({ { refused, 100 } })).to_be({ "two", "one" })
    expect(on_trial({ { update.dialled, 100 } })).to_be({ "two" })
    expect(on_trial({ { update.dialled, 50 }, { refused, 100 } })).to_be({ "two", "one" })
    expect(on_trial({ { refused, 11 }, { update.dialled, 50 }, { refused, 11 } })).to_be({ "two" })
  end)

  it("leaves a client alone once it was welcome, or where there is none to go back to", function()
    local function forget_the_other()
      fs.delete(OWN .. "/client.a.lua")
    end
    expect(on_trial({ { refused, 5 }, { update.welcomed, 1 }, { nothing, 100 } })).to_be({ "two" })
    expect(on_trial({ { forget_the_other, 1 }, { nothing, 100 } })).to_be({ "two" })
  end)

  it("runs a good client again and again, however often it fails", function()
    local desk = computer_with({ a = "one", b = "two" }, pointer_to("a", "good"), function(_, count)
      return count == 5 and "stopped" or "failed", count < 5 and "no disk" or nil
    end)
    expect(run(desk)).to_be({ "one", "one", "one", "one", "one" })
    expect(desk.printed).to_be({ "no disk", "The client has stopped." })
  end)

  it("says to whoever asks why no client runs, and ends when it is told to", function()
    local desk = computer_with({ a = "one" }, pointer_to("a", "good"), function()
      return "failed", "no disk"
    end)
    local co = coroutine.create(assert(loadfile("/.cc-orchestrator/boot.lua")))
    assert(coroutine.resume(co))
    assert(coroutine.resume(co, "terminate"))
    assert(coroutine.resume(co, "cc_orchestrator_ask", "n1", "status"))
    local told = desk.machine.events[1]
    expect({ told[1], told[2], told[4] }).to_be({ "cc_orchestrator_told", "n1", true })
    expect(told[3]).to_contain("cannot run now, and tries again by itself: no disk")
    assert(coroutine.resume(co, "cc_orchestrator_ask", "n2", "-restart"))
    expect(desk.clients).to_be({ "one", "one" })
    assert(coroutine.resume(co, "cc_orchestrator_ask", "n3", "-quit"))
    expect(coroutine.status(co)).to_be("dead")
  end)

  it("says all lines of why no client runs, but for a traceback", function()
    for said, heard in pairs({
      ["HTTP is off.\nset enabled"] = "HTTP is off.\nset enabled",
      ["boo.lua:1: bug\nstack traceback:\n\t[C]: in ?"] = "boo.lua:1: bug",
    }) do
      local desk = computer_with({ a = "one" }, pointer_to("a", "good"), function()
        return "failed", said
      end)
      local co = coroutine.create(assert(loadfile("/.cc-orchestrator/boot.lua")))
      assert(coroutine.resume(co))
      assert(coroutine.resume(co, "cc_orchestrator_ask", "n1", "status"))
      local sentence = "The client cannot run now, and tries again by itself: " .. heard
      expect(desk.machine.events[1][3]).to_be(sentence)
    end
  end)

  it("looks at the pointer again when a client wants another one to run", function()
    local desk = computer_with({ a = "one", b = "two" }, pointer_to("a", "good"), function(name)
      if name == "one" then
        slots.write(pointer_to("b", "trial"))
        return "restart"
      end
      return "stopped"
    end)
    expect(run(desk)).to_be({ "one", "two" })
  end)

  it("runs whatever is whole when the pointer or a slot is torn", function()
    local torn = desktop.client_text("torn"):sub(1, -10)
    expect(run(computer_with({ a = "one", b = torn }, pointer_to("b", "trial")))).to_be({ "one" })
    expect(run(computer_with({ a = torn, b = "two" }, pointer_to("a", "good")))).to_be({ "two" })
    expect(run(computer_with({ a = torn, b = "two" }))).to_be({ "two" })
    local desk = computer_with({ a = torn, b = "two" }, pointer_to("b", "good"))
    desk.disk.nodes[OWN .. "/slot"] = desk.disk.nodes[OWN .. "/slot"]:sub(1, 30)
    expect(run(desk)).to_be({ "two" })
  end)

  it("says what to do when there is no whole client", function()
    local desk = computer_with({ a = "-- The cc-orchestrator client, torn\n" }, pointer_to("a", "good"))
    expect(run(desk)).to_be({})
    expect(desk.printed[1]).to_contain("run the installer again")
  end)
end)

describe("a tab of its own", function()
  it("opens a shell when the player has none any more", function()
    local desk = desktop.new({ tabs = true })
    local nodes = desk.disk.nodes
    nodes[OWN], nodes[OWN .. "/boot.lua"] = true, desktop.BOOT
    local opened = {}
    shell.openTab = function(program)
      opened[#opened + 1] = program
      desk.tab_count = 2
      return 3
    end
    parallel.waitForAny = function(client, watch)
      client()
      local co = coroutine.create(watch)
      for count = 2, 0, -1 do
        desk.tab_count = count
        assert(coroutine.resume(co, "timer", 1))
      end
    end
    desk.tab_count = 2
    assert(loadfile("/.cc-orchestrator/boot.lua"))()
    expect(opened).to_be({ "shell" })
  end)
end)

describe("the tab of a client that ended", function()
  --- The tabs that had the focus, when a client in tab 2 ended.
  local function focussed(is_told)
    local desk = desktop.new({ tabs = true })
    local nodes = desk.disk.nodes
    nodes[OWN], nodes[OWN .. "/boot.lua"] = true, desktop.BOOT
    nodes[OWN .. "/client.a.lua"] = desktop.client_text("one")
    desk.behave = function(_, _, _, host)
      host.is_told = is_told
      return "stopped", "why"
    end
    local seen = {}
    parallel.waitForAny = function(client)
      client()
    end
    multishell = {
      setTitle = function() end,
      getCount = function()
        return 2
      end,
      getCurrent = function()
        return 2
      end,
      getFocus = function()
        return 1
      end,
      setFocus = function(tab)
        seen[#seen + 1] = tab
      end,
    }
    assert(loadfile("/.cc-orchestrator/boot.lua"))()
    return seen
  end

  it("has been seen when it was told to end, so that it closes", function()
    expect(focussed(true)).to_be({ 2, 1 })
  end)

  it("stays with its sentence when nobody told it to", function()
    expect(focussed(nil)).to_be({})
  end)
end)

describe("the pointer", function()
  it("is read whole whenever the power goes while it is replaced", function()
    for count = 1, 10 do
      local desk = computer_with({ a = "one", b = "two" }, pointer_to("a", "good"))
      desk.machine.die_at(count)
      local ok = slots.write(pointer_to("b", "trial"))
      desk.machine.revive()
      expect(slots.read()).to_be(
        slots.read().slot == "a" and pointer_to("a", "good") or pointer_to("b", "trial")
      )
      if ok then
        return
      end
    end
    error("it never came to its end")
  end)

  it("remembers the last eight that did not run", function()
    computer_with({}, nil)
    local pointer = pointer_to("a", "good")
    for index = 1, 12 do
      pointer.bad[index] = ("%02x"):format(index)
    end
    assert(slots.write(pointer))
    expect(slots.read().bad).to_be({ "05", "06", "07", "08", "09", "0a", "0b", "0c" })
    expect(slots.is_bad(slots.read(), "05")).to_be(true)
    expect(slots.is_bad(slots.read(), "04")).to_be(false)
  end)
end)

desktop.done()
