local client = require("client")
local computer = require("computer")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local calls = 0

--- A client beside a chest that says what it is asked to do.
local function beside_chest(methods)
  local machine = computer.new()
  computer.peripherals({ left = { types = { "minecraft:chest", "inventory" }, methods = methods } })
  local here = client.boot(machine):welcome(5)
  local function ask(method, body, timeout_s)
    calls = calls + 1
    local params = { name = "left", method = method, timeout_s = timeout_s or 10 }
    return here:call("p" .. calls, 5, "peripheral_call", params, body)
  end
  return ask, here, machine
end

describe("peripheral_call", function()
  it("calls a method and answers what it returns", function()
    local got
    local ask = beside_chest({
      list = function()
        return { [1] = { name = "minecraft:coal", count = 3 }, [4] = { name = "x", count = 1 } }
      end,
      pushItems = function(...)
        got = table.pack(...)
        return 3, nil, 0.5
      end,
      nothing = function() end,
    })
    local answer = ask("list")
    expect(answer.ok).to_be(true)
    expect(answer.data).to_be({ count = 1, cut = false })
    expect(answer.bytes).to_be('[{"1":{"count":3,"name":"minecraft:coal"},"4":{"count":1,"name":"x"}}]')
    answer = ask("pushItems", '["chest_1",1,null,2.5,{"a":true}]')
    expect(answer.bytes).to_be("[3,null,0.5]")
    expect(got.n).to_be(5)
    expect(got[3]).to_be(nil)
    expect(got[4]).to_be(2.5)
    expect(got[5]).to_be({ a = true })
    expect(ask("nothing").bytes).to_be("[]")
  end)

  it("says that there is no such peripheral, or method", function()
    local ask, here = beside_chest({})
    expect(ask("list").code).to_be("no_such_method")
    local params = { name = "top", method = "list", timeout_s = 1 }
    expect(here:call("q1", 5, "peripheral_call", params).code).to_be("no_such_peripheral")
    peripheral = nil
    expect(here:call("q2", 5, "peripheral_call", params).code).to_be("no_such_peripheral")
  end)

  it("tells what the peripheral threw", function()
    local ask = beside_chest({
      getItemDetail = function()
        error("Slot out of range", 0)
      end,
    })
    local answer = ask("getItemDetail", "[99]")
    expect(answer.code).to_be("peripheral_error")
    expect(answer.message).to_be("Slot out of range")
  end)

  it("waits for the world without holding up the client", function()
    local ask, here = beside_chest({
      getItemDetail = function()
        local _, value = os.pullEvent("task_complete")
        return value
      end,
    })
    local id = ask("getItemDetail", "[1]").call_id
    expect(here:count("result")).to_be(0)
    expect(here:call("beside", 5, "fs_list", { path = "" }).ok).to_be(true)
    os.queueEvent("task_complete", { name = "coal" })
    here:settle_down()
    expect(here:last(id).bytes).to_be('[{"name":"coal"}]')
  end)

  it("ends with its time, and when it is told to", function()
    local function never()
      while true do
        os.pullEventRaw("never")
      end
    end
    local ask, here, machine = beside_chest({ wait = never })
    local id = ask("wait", "[]", 2).call_id
    for _ = 1, 100 do
      machine.now_ms = machine.now_ms + 100
      here.loop:tick()
    end
    expect(here:last(id).code).to_be("timed_out")
    ask, here = beside_chest({
      wait = function()
        os.pullEvent("never")
      end,
    })
    id = ask("wait").call_id
    expect(here:call("stop" .. id, 5, "terminate", { run = id }).data.state).to_be("stopping")
    expect(here:last(id).code).to_be("terminated")
  end)

  it("takes only what the protocol says", function()
    local ask, here = beside_chest({
      list = function()
        return print
      end,
    })
    expect(ask("list", "{}").code).to_be("bad_params")
    expect(ask("list", "[").code).to_be("bad_params")
    expect(here:call("r1", 5, "peripheral_call", { name = "left", timeout_s = 1 }).code).to_be("bad_params")
    expect(ask("list").bytes).to_be('["[function]"]')
  end)
end)
