local json = require("json")
local spec = require("spec")
local why = require("why")
local describe, it, expect = spec.describe, spec.it, spec.expect

local function golden()
  local file = assert(io.open("tests/golden/why.json", "rb"))
  local text = file:read("*a")
  file:close()
  return assert(json.decode(text))
end

local function diagnosed(case)
  if case.how == "failed" then
    return why.failed(case.url, case.said)
  elseif case.how == "refused" then
    return why.refused(case.url, { code = case.code, message = case.said, remedy = case.server_remedy })
  end
  return why.told(case.code, case.url, case.said)
end

describe("why", function()
  for index, case in ipairs(golden()) do
    it("has the words of the orchestrator for " .. case.code .. " " .. index, function()
      local fault = diagnosed(case)
      expect(fault.code).to_be(case.code)
      expect(fault.sentence).to_be(case.sentence)
      expect(fault.remedy).to_be({ table.unpack(case.remedy) })
    end)
  end

  it("knows what is off without dialling", function()
    http = nil
    expect(why.here().code).to_be("http_off")
    http = {}
    expect(why.here().code).to_be("websockets_off")
    http.websocketAsync = function()
      error("Websocket connections are disabled", 0)
    end
    expect(why.here().code).to_be("websockets_off")
    http.websocketAsync = function()
      return false, "URL malformed"
    end
    expect(why.here()).to_be(nil)
  end)

  it("shows what a server that it does not know says, on one line and without tricks", function()
    local fault =
      why.refused("ws://a:1", { code = "too_many_tries", message = "Wait.\27[2J\n", remedy = "A minute." })
    expect(fault).to_be({ code = "too_many_tries", sentence = "Wait. [2J", remedy = { "A minute." } })
    expect(why.refused("ws://a:1", { code = "x", message = "No." }).remedy).to_be({})
    expect(#why.failed("ws://a:1", ("x"):rep(9999)).sentence < 500).to_be(true)
    expect(why.failed("ws://a:1", nil).code).to_be("unknown")
  end)

  it("fits the 13 rows of a turtle with the line that was typed and the prompt", function()
    for _, case in ipairs(golden()) do
      local rows = 0
      for line in (why.text(case) .. "\n"):gmatch("([^\n]*)\n") do
        local column = 0
        rows = rows + 1
        for word in line:gmatch("%S+") do
          if column > 0 and column + 1 + #word > 39 then
            rows, column = rows + 1, 0
          end
          column = column + (column > 0 and 1 or 0) + #word
        end
      end
      expect(rows <= 11).to_be(true)
    end
  end)
end)
