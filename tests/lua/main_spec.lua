local computer = require("computer")
local main = require("main")
local spec = require("spec")
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
    end)).to_contain("http API")
  end)

  it("says what its settings must hold", function()
    expect(sentence(function() end)).to_contain("/.cc-orchestrator/connection")
    expect(sentence(function(nodes)
      nodes[".cc-orchestrator"] = true
      nodes[".cc-orchestrator/connection"] = "-- a comment\nhttp://x\ntoken\n"
    end)).to_contain("a comment, the URL and the token")
  end)
end)
