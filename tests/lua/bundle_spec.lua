local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

--- What the modules in the client are compiled from: name = text.
local function sources()
  local text, replaced =
    read("cc_client/client.lua"):gsub('return require%("main"%)%.run%(%.%.%.%)\n$', "return sources\n")
  expect(replaced).to_be(1)
  return assert(load(text, "=client", "t", setmetatable({}, { __index = _G })))()
end

describe("the bundle", function()
  it("has every module as it was written, to the last instruction and the number of each line", function()
    local count = 0
    for name, short in pairs(sources()) do
      local long = read("cc_client/lua/" .. name .. ".lua")
      local same = string.dump(assert(load(short, "=m"))) == string.dump(assert(load(long, "=m")))
      expect({ name, same }).to_be({ name, true })
      expect(#short < #long).to_be(true)
      count = count + 1
    end
    expect(count > 30).to_be(true)
  end)

  it("is small enough for a computer's disk, twice", function()
    expect(#read("cc_client/client.lua") < 100000).to_be(true)
  end)

  it("says where it went wrong as in the files that people read", function()
    local env = setmetatable({ _HOST = "ComputerCraft 1.116.1" }, { __index = _G })
    local ok, why = pcall(assert(load(read("cc_client/client.lua"), "=client", "t", env)), "--boot", 7)
    expect(ok).to_be(false)
    expect(why:match("^main%.lua:%d+: ") ~= nil).to_be(true)
    local line = tonumber(why:match("^main%.lua:(%d+): "))
    local number = 0
    for text in read("cc_client/lua/main.lua"):gmatch("([^\n]*)\n") do
      number = number + 1
      if number == line then
        expect(text:find("host", 1, true) ~= nil).to_be(true)
      end
    end
  end)
end)
