local computer = require("computer")
local frame = require("frame")
local json = require("json")
local sha256 = require("sha256")
local spec = require("spec")
local transfers = require("transfers")
local describe, it, expect = spec.describe, spec.it, spec.expect

local FROM_SERVER = {
  "welcome",
  "welcome_client",
  "welcome_labels",
  "welcome_cell",
  "refused_cell",
  "refused",
  "call",
  "settle",
  "result_ack",
  "label_kept",
  "ping",
  "server_error",
  "call_in_parts",
  "call_chunk",
  "server_chunk_ack",
  "call_fs_edit",
  "call_fs_find",
  "call_fs_mkdir",
  "call_fs_move",
  "call_info",
  "call_peripheral_call",
  "call_run_input",
  "call_screen",
  "call_screen_of",
  "call_terminate",
  "told_lines",
  "told_tasks",
  "told_refused",
  "watch",
  "watch_monitor",
  "look",
  "keys",
}
local FROM_COMPUTER = {
  "hello",
  "hello_chunks",
  "ack",
  "result",
  "call_refused",
  "settled",
  "label",
  "pong",
  "computer_error",
  "result_in_parts",
  "result_chunk",
  "computer_chunk_ack",
  "output",
  "result_fs_find",
  "result_fs_stat",
  "result_info",
  "result_info_methods",
  "result_peripheral_call",
  "result_screen",
  "desk_ask",
  "desk_watch",
  "desk_answer",
  "picture",
  "picture_rows",
  "unseen",
  "screens",
  "keyed",
  "keyed_refused",
}
--- Parts of a body are hashed when all are here.
local IN_PARTS = { call_in_parts = true, call_chunk = true }
--- Golden names begin with what tells two of one type apart.
local function type_of(name)
  return name:find("chunk_ack") and "chunk_ack"
    or name:find("chunk") and "chunk"
    or name:find("^call") and "call"
    or name:find("^told") and "told"
    or name:find("^welcome") and "welcome"
    or name:find("^refused") and "refused"
    or name:find("^watch") and "watch"
    or (name:gsub("server_", ""))
end

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
      expect(header and header.type or body).to_be(type_of(name))
      if header.body and not IN_PARTS[name] then
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
      expect(frame.encode(header, described and body, described)).to_be(bytes)
    end
  end)

  it("puts the golden parts of a call together", function()
    local incoming = transfers.incoming()
    expect(incoming:begin(frame.decode(golden("call_in_parts")))).to_be(true)
    local header, body = incoming:go_on(frame.decode(golden("call_chunk")))
    expect(header.call_id).to_be("run-7")
    expect(#body).to_be(header.body.total)
    expect(sha256.hex(body)).to_be(header.body.sha256)
  end)

  it("writes the golden parts of a result, byte for byte", function()
    computer.new()
    local first, second = golden("result_in_parts"), golden("result_chunk")
    local header = json.decode((first:match("^[^\n]*")))
    local body, sent = first:match("\n(.*)$") .. second:match("\n(.*)$"), {}
    expect(sha256.hex(body)).to_be(header.body.sha256)
    local outgoing = transfers.outgoing(function(part, bytes, described)
      part.journal_seq = 44
      sent[#sent + 1] = frame.encode(part, bytes, described)
    end)
    outgoing:add(header, body, header.body.sha256)
    expect(sent).to_be({ first, second })
  end)

  it("keeps a body in parts within its bounds", function()
    local head = '{"type":"%s","call_id":"r1"%s,"body":{"offset":%d,"total":%d,"sha256":"%s"}}\n'
    local of_call = ',"task":"t","number":1,"method":"m"'
    local function part(kind, offset, total, bytes)
      local extra = kind == "call" and of_call or ""
      return head:format(kind, extra, offset, total, ("0"):rep(64)) .. ("x"):rep(bytes)
    end
    expect(frame.decode(part("call", 0, 2097152, 49152)).body.total).to_be(2097152)
    expect(frame.decode(part("chunk", 49152, 49153, 1)).body.offset).to_be(49152)
    refused(part("call", 0, 2097153, 49152), "r1")
    refused(part("call", 0, 49153, 49151), "r1")
    refused(part("chunk", 0, 49153, 49152), "r1")
    refused(part("chunk", 49152, 49152, 0), "r1")
    refused(part("chunk", 49152, 98305, 49151), "r1")
    refused('{"type":"chunk","call_id":"r1"}\n', "r1")
    refused('{"type":"chunk_ack","call_id":"r1"}\n', "r1")
  end)

  it("keeps the limits of a frame", function()
    local described = { offset = 0, total = 1, sha256 = sha256.hex("") }
    local whole = ("x"):rep(frame.MAX_BODY_BYTES)
    expect(#frame.encode({ type = "pong", n = 1 }, whole, described) > frame.MAX_BODY_BYTES).to_be(true)
    expect(frame.encode({ type = "pong" }, whole .. "x", described)).to_be(nil)
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
