local cc = require("cc")
local command = require("command")
local desktop = require("desktop")
local spec = require("spec")
local status = require("status")
local describe, it, expect = spec.describe, spec.it, spec.expect

--- A computer on which `cc` is typed; with `client`, a client answers.
local function typing(client, ...)
  local desk = desktop.new()
  local co, words = coroutine.create(cc.run), table.pack(...)
  assert(coroutine.resume(co, table.unpack(words, 1, words.n)))
  local rounds = 0
  while coroutine.status(co) ~= "dead" and rounds < 50 do
    rounds = rounds + 1
    local event = table.remove(desk.machine.events, 1)
      or client and { "nothing", n = 1 }
      or { "timer", 1, n = 2 }
    if client then
      command.event(event)
    end
    assert(coroutine.resume(co, table.unpack(event, 1, event.n)))
  end
  return table.concat(desk.printed, "\n"), co, desk
end

describe("cc", function()
  it("says whether the client is connected, and what mends it", function()
    status.set("version", "9")
    status.set("update", nil)
    status.set("server", "ws://server/computer")
    status.set("fault", "The server does not answer.")
    status.set("remedy", "Start it.")
    expect(typing(true, "status")).to_be(
      "Client 9, server ws://server/computer\nNot connected: The server does not answer.\nStart it."
    )
    status.set("computer", "farm")
    status.set("connected_ms", os.epoch("utc") - 3 * 60000)
    expect(typing(true, "status")).to_be(
      "Client 9, server ws://server/computer\nConnected as farm for 3 min."
    )
    status.set("connected_ms", nil)
  end)

  it("shows the last lines, each once", function()
    for index = 1, 50 do
      status.note("line " .. index)
    end
    status.note("line 50")
    local text = typing(true, "log", "2")
    expect(text:gsub("%d%d:%d%d", "T")).to_be("T line 49\nT line 50 (2 times)")
    local _, count = typing(true, "log", "1000"):gsub("\n", "")
    expect(count).to_be(39)
  end)

  it("lists what it can do, also without a word", function()
    expect(typing(true)).to_contain("cc uninstall: ")
    expect(typing(true, "help")).to_be(typing(true))
  end)

  it("says that there is no such command, or that one went wrong", function()
    expect(typing(true, "dance")).to_be("There is no `cc dance`. Type `cc help`.")
    command.VERBS.dance = function()
      error("no legs", 0)
    end
    expect(typing(true, "dance")).to_be("This went wrong: no legs")
    command.VERBS.dance = nil
  end)

  it("hands words over as they were typed, and prints each answer", function()
    local given
    command.VERBS.say = function(request)
      given = request.words
      request.tell("first")
      request.tell("last", true)
    end
    expect(typing(true, "say", "two words", "x")).to_be("first\nlast")
    expect(given).to_be({ "two words", "x" })
    command.VERBS.say = nil
  end)

  it("tells the client when nobody waits any more", function()
    local left = 0
    command.VERBS.linger = function(request)
      request.left = function()
        left = left + 1
      end
    end
    for round = 1, 10 do
      local _, co, desk = typing(true, "linger")
      expect(coroutine.status(co)).to_be("suspended")
      assert(coroutine.resume(co, "terminate"))
      expect(coroutine.status(co)).to_be("dead")
      command.event(table.remove(desk.machine.events))
      expect(left).to_be(round)
    end
    command.VERBS.linger = nil
  end)

  it("says that no client runs", function()
    expect(typing(false, "status")).to_contain("start it with `cc start`")
  end)
end)

desktop.done()
