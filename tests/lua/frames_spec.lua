local frame = require("frame")
local json = require("json")
local sha256 = require("sha256")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local FROM_SERVER = { "welcome", "refused", "call", "settle", "result_ack", "ping", "server_error" }
local FROM_COMPUTER = { "hello", "ack", "result", "call_refused", "settled", "pong", "computer_error" }

local function golden(name)
  local file = assert(io.open("tests/golden/computer/" .. name .. ".frame", "rb"))
  local bytes = file:read("*a")
  file:close()
  return bytes
end

local function refused(bytes, call_id)
  local header, why, id = frame.decode(bytes)
  expect(header).to_be(nil)
  expect(type(why)).to_be("string")
  expect(id).to_be(call_id)
end

describe("frames", function()
  it("reads the golden frames of the server", function()
    for _, name in ipairs(FROM_SERVER) do
      local header, body = frame.decode(golden(name))
      expect(header and header.type or body).to_be((name:gsub("server_", "")))
      if header.body then
        expect(sha256.hex(body)).to_be(header.body.sha256)
      end
    end
  end)

  it("writes the golden frames of a computer, byte for byte", function()
    for _, name in ipairs(FROM_COMPUTER) do
      local bytes = golden(name)
      local line, body = bytes:match("^([^\n]*)\n(.*)$")
      local header = json.decode(line)
      local described = header.body
      header.body = nil
      expect(frame.encode(header, described and body, described and sha256.hex(body))).to_be(bytes)
    end
  end)

  it("keeps the limits of a frame", function()
    local hash = sha256.hex("")
    local whole = ("x"):rep(frame.MAX_BODY_BYTES)
    expect(#frame.encode({ type = "pong", n = 1 }, whole, hash) > frame.MAX_BODY_BYTES).to_be(true)
    expect(frame.encode({ type = "pong" }, whole .. "x", hash)).to_be(nil)
    expect(frame.encode({ type = "pong", s = ("x"):rep(5000) })).to_be(nil)
    refused((" "):rep(4097) .. '{"type":"ping","n":1}\n')
  end)

  it("refuses what is no message of the server, naming the call where it can", function()
    refused("")
    refused("garbage")
    refused("\n")
    refused("[]\n")
    refused('{"type":"hello"}\n')
    refused('{"type":"ping"}\n')
    refused('{"type":"ping","n":-1}\n')
    refused('{"type":"ping","n":1,"x":1}\n')
    refused('{"type":"ping","n":1}\nbody')
    refused('{"type":"result_ack","call_id":"r1","number":"1"}\n', "r1")
    refused('{"type":"result_ack","call_id":"../r1","number":1}\n')
    refused('{"type":"settle","number":1,"call_ids":{"a":"b"}}\n')
    refused('{"type":"settle","number":1,"call_ids":[1]}\n')
  end)

  it("refuses a body that is not where the header says", function()
    local head = '{"type":"call","call_id":"r1","task":"t","number":1,"method":"m","params":{},"body":%s}\n'
    local zeros = ("0"):rep(64)
    refused(head:format('{"offset":0,"total":3,"sha256":"' .. zeros .. '"}') .. "ab", "r1")
    refused(head:format('{"offset":1,"total":2,"sha256":"' .. zeros .. '"}') .. "ab", "r1")
    refused(head:format('{"offset":0,"total":2,"sha256":"short"}') .. "ab", "r1")
    refused(head:format("[]") .. "ab", "r1")
  end)
end)
