local json = require("json")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local function all_bytes()
  local bytes = {}
  for byte = 0, 255 do
    bytes[#bytes + 1] = string.char(byte)
  end
  return table.concat(bytes)
end

local function refused(text)
  local value, why = json.decode(text)
  expect(value).to_be(nil)
  expect(type(why)).to_be("string")
end

describe("json", function()
  it("brings every byte there and back, as ASCII", function()
    local text = json.encode({ s = all_bytes() })
    expect(text:find("[^ -~]")).to_be(nil)
    expect(json.decode(text)).to_be({ s = all_bytes() })
  end)

  it("reads what Python writes", function()
    expect(json.decode('{"a": "\\n\\t\\u00ff\\/\127", "b": [true, false, -1]}')).to_be({
      a = "\n\t\255/\127",
      b = { true, false, -1 },
    })
  end)

  it("tells a list from an object, empty ones too", function()
    expect(json.is_array(json.decode("[]"))).to_be(true)
    expect(json.is_array(json.decode("{}"))).to_be(false)
    expect(json.encode({ json.array({}), {} })).to_be("[[],{}]")
  end)

  it("sorts keys, so that the same value is the same text", function()
    expect(json.encode({ b = 1, a = 2, c = "x" })).to_be('{"a":2,"b":1,"c":"x"}')
  end)

  it("refuses nesting bombs quickly", function()
    refused(("["):rep(100000))
    refused(('{"a":'):rep(100000))
    refused(("["):rep(17) .. ("]"):rep(17))
  end)

  it("refuses escapes that are not one byte", function()
    for _, text in ipairs({ '"\\u0100"', '"\\ud800"', '"\\x"', '"\\u00"', '"\\u00g0"', '"\\' }) do
      refused(text)
    end
  end)

  it("refuses raw control bytes and bytes outside ASCII", function()
    refused('"a\nb"')
    refused('"\255"')
  end)

  it("knows integers only", function()
    expect(json.decode("10000000000000")).to_be(1e13)
    expect(json.decode("-0")).to_be(0)
    for _, text in ipairs({ "1.5", "1e3", "01", "-", "10000000000001", ("9"):rep(400), "nan", "+1" }) do
      refused(text)
    end
    expect((pcall(json.encode, 0.5))).to_be(false)
    expect((pcall(json.encode, 0 / 0))).to_be(false)
  end)

  it("refuses null, trailing text, double keys and torn texts", function()
    for _, text in ipairs({ "null", "{} x", '{"a":1,"a":2}', "[1,]", '{"a"}', "[1", '"a', "", "tru" }) do
      refused(text)
    end
  end)

  it("takes linear time", function()
    local long = '"' .. ("\\u0041"):rep(50000) .. '"'
    expect(#json.decode(long)).to_be(50000)
  end)
end)
