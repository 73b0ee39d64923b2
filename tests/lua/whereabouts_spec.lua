local client = require("client")
local computer = require("computer")
local ours = require("ours")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local function pong(here)
  here:receive({ type = "ping", n = 1, where = true })
  return here.sent[#here.sent]
end

--- A program's `gps.locate`, where the game's answers so.
local function located(...)
  local answer = table.pack(...)
  _G.gps = {
    locate = function()
      return table.unpack(answer, 1, answer.n)
    end,
  }
  for _, entry in ipairs(ours.own(function() end)) do
    if entry[1] == _G.gps then
      return entry[3]
    end
  end
end

describe("whereabouts", function()
  it("are told only where the ping asks for them", function()
    local here = client.boot(computer.new()):welcome(5)
    _G.turtle = {
      getFuelLevel = function()
        return 740
      end,
      getFuelLimit = function()
        return "unlimited"
      end,
    }
    here:receive({ type = "ping", n = 1 })
    expect(here.sent[#here.sent].fuel).to_be(nil)
    local told = pong(here)
    _G.turtle = nil
    expect(told.fuel).to_be(740)
    expect(told.fuel_limit).to_be(-1)
    expect(told.at).to_be(nil)
    expect(pong(here).fuel).to_be(nil)
  end)

  it("are what a program of a task located last, which goes on with the same answer", function()
    local here = client.boot(computer.new()):welcome(5)
    expect({ located(12.4, 64, -30.5)() }).to_be({ 12.4, 64, -30.5 })
    expect(located(nil)()).to_be(nil)
    expect(located(1, 0 / 0, 3)()).to_be(1)
    expect(located("x", "y", "z")()).to_be("x")
    _G.gps = nil
    local told = pong(here)
    expect(told.at).to_be({ 12, 64, -31 })
    expect(told.at_age_s).to_be(0)
  end)

  it("are the block of a command computer", function()
    local here = client.boot(computer.new()):welcome(5)
    _G.commands = {
      getBlockPosition = function()
        return 1, 2, 3
      end,
    }
    expect(pong(here).at).to_be({ 1, 2, 3 })
    _G.commands = nil
  end)
end)
