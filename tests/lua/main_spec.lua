local command = require("command")
local computer = require("computer")
local Journal = require("journal")
local json = require("json")
local main = require("main")
local spec = require("spec")
local update = require("update")
local describe, it, expect = spec.describe, spec.it, spec.expect

--- Runs the client where it cannot go on; the sentence that it leaves with.
local function sentence(prepare)
  local machine = computer.new()
  local said
  printError = function(text)
    said = text
  end
  print = function() end
  http = { websocketAsync = function() end }
  prepare(machine.disk.nodes)
  main.run()
  return said
end

describe("main", function()
  it("says which version it needs", function()
    expect(sentence(function()
      _HOST = "ComputerCraft 1.94.0 (Minecraft 1.16.4)"
    end)).to_contain("1.95 or newer; this is ComputerCraft 1.94.0")
  end)

  it("says that http is off", function()
    expect(sentence(function()
      http = nil
    end)).to_contain("HTTP is turned off on the Minecraft server.\nSet in computercraft-server.toml")
  end)

  it("says what its settings must hold", function()
    expect(sentence(function() end)).to_contain("/.cc-orchestrator/connection")
    expect(sentence(function(nodes)
      nodes[".cc-orchestrator"] = true
      nodes[".cc-orchestrator/connection"] = "-- a comment\nhttp://x\ntoken\n"
    end)).to_contain("a comment, the URL and the token")
  end)
end)

--- A client that boot.lua runs, with a connection; the function that hands it an event, until it ends.
local function running(prepare)
  local machine = computer.new()
  local nodes = machine.disk.nodes
  nodes[".cc-orchestrator"] = true
  nodes[".cc-orchestrator/connection"] = "-- a comment\nws://server/computer\ntoken\nname\n"
  http = {
    websocketAsync = function(url)
      machine.url = url
      return true
    end,
  }
  command.has_to_stop, update.ready = false, false
  if prepare then
    prepare(nodes)
  end
  local co = coroutine.create(main.run)
  local function resume(...)
    local results = table.pack(coroutine.resume(co, ...))
    assert(results[1], results[2])
    return coroutine.status(co) == "dead" and { table.unpack(results, 2, results.n) } or nil
  end
  return resume, resume("--boot", { slot = "a", quiet = true }), machine
end

describe("main, run by boot", function()
  it("lives through Ctrl-T and ends to be followed by another client when nothing is open", function()
    local resume = running()
    expect(resume("terminate")).to_be(nil)
    update.ready = true
    expect(resume("key", 1)).to_be({ "restart" })
  end)

  it("waits with that until what is open was acknowledged, unless it is told to end now", function()
    local resume = running(function(nodes)
      local journal = Journal.open("before")
      assert(journal:begin({}))
      assert(journal:commit(function(state)
        state.calls["c.1"] = { state = "ok" }
      end))
      expect(nodes[".cc-orchestrator/journal.a"] ~= nil).to_be(true)
    end)
    update.ready = true
    expect(resume("key", 1)).to_be(nil)
    expect(resume("cc_orchestrator_ask", "n", "-restart", "now")).to_be({ "restart" })
  end)

  it("looks after itself each 5 s while it is idle, and each second while something is under way", function()
    local resume, _, machine = running()
    local function tick()
      resume("timer", #machine.timers)
      return machine.timers[#machine.timers]
    end
    local function receive(header)
      resume("websocket_message", machine.url, json.encode(header) .. "\n", true)
      return machine.timers[#machine.timers]
    end
    expect(tick() <= 1).to_be(true)
    resume("websocket_success", machine.url, { send = function() end, close = function() end })
    receive({ type = "welcome", number = 1, computer = "alpha", silence_s = 100 })
    expect(tick()).to_be(5)
    expect(receive({ type = "ping", n = 1 })).to_be(5)
    resume("cc_orchestrator_ask", "n", "tasks")
    expect(machine.timers[#machine.timers]).to_be(1)
    expect(tick()).to_be(1)
    resume("cc_orchestrator_left", "n")
    expect(tick()).to_be(5)
    resume("websocket_closed", machine.url)
    expect(machine.timers[#machine.timers] <= 1).to_be(true)
  end)

  it("stops for good when it is told to", function()
    local resume = running()
    expect(resume("cc_orchestrator_ask", "n", "-quit")).to_be({ "stopped", "The client was stopped." })
  end)

  it("says why it cannot run", function()
    local _, ended = running(function(nodes)
      nodes[".cc-orchestrator/connection"] = nil
    end)
    expect(ended[1]).to_be("failed")
    expect(ended[2]).to_contain("/.cc-orchestrator/connection")
  end)

  it("reads its connection also when the power went while it was replaced", function()
    local _, ended = running(function(nodes)
      nodes[".cc-orchestrator/connection.new"] = nodes[".cc-orchestrator/connection"]
      nodes[".cc-orchestrator/connection"] = nil
    end)
    expect(ended).to_be(nil)
  end)
end)
