local client = require("client")
local computer = require("computer")
local json = require("json")
local Loop = require("loop")
local sha256 = require("sha256")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local PART = 49152
local WRITE = { path = "f", if_hash = "absent" }
local BODY = ("0123456789abcdef"):rep(PART / 8) .. "the end\0\255"

local function welcomed(options)
  local machine = computer.new(options)
  return client.boot(machine):welcome(5), machine
end

local function acks(here, id)
  local offsets = {}
  for _, message in ipairs(here.sent) do
    if message.type == "chunk_ack" and message.call_id == id then
      offsets[#offsets + 1] = message.offset
    end
  end
  return offsets
end

--- How many frames of results in parts have gone out.
local function frames_out(here)
  local count = 0
  for _, message in ipairs(here.sent) do
    local is_part = message.type == "chunk" or message.type == "result" and message.body
    count = count + (is_part and message.body.total > PART and 1 or 0)
  end
  return count
end

local function read(here, id)
  return here:send_call(id, 5, "fs_read", { path = "big" })
end

describe("a call in parts", function()
  it("is one call when its last byte is there, every frame acknowledged", function()
    local here, machine = welcomed()
    local frames = client.parts("r1", 5, "fs_write", WRITE, BODY)
    expect(#frames).to_be(3)
    here:receive_all({ frames[1], frames[2] })
    here:settle_down()
    expect(here:last_of("ack")).to_be(nil)
    here:receive_all({ frames[3] })
    here:settle_down()
    expect(acks(here, "r1")).to_be({ PART, 2 * PART, #BODY })
    expect(here:last("r1").data.sha256).to_be(sha256.hex(BODY))
    expect(machine.disk.nodes.f).to_be(BODY)
  end)

  it("is overtaken by small messages", function()
    local here = welcomed()
    local frames = client.parts("r1", 5, "fs_write", WRITE, BODY)
    here:receive_all({ frames[1] })
    here:receive({ type = "ping", n = 3 })
    expect(here:call("r2", 5, "fs_list", { path = "" }).ok).to_be(true)
    expect(here:last_of("pong").n).to_be(3)
  end)

  it("is nothing when its connection ends before the last byte", function()
    local here, machine = welcomed()
    local frames = client.parts("r1", 5, "fs_write", WRITE, BODY)
    here:receive_all({ frames[1], frames[2] })
    here:welcome(6)
    here:receive_all({ frames[3] })
    here:settle_down()
    -- What belongs to nothing is acknowledged and dropped.
    expect(acks(here, "r1")).to_be({ #BODY })
    expect(here:last_of("error")).to_be(nil)
    expect(machine.disk.nodes.f).to_be(nil)
    expect(here:ask("r1", 7).state).to_be("void")
  end)

  it("is dropped and void when it is settled before the last byte", function()
    local here, machine = welcomed()
    -- A number above the new fence would pass it: the settle itself is what counts.
    local frames = client.parts("r1", 50, "fs_write", WRITE, BODY)
    here:receive_all({ frames[1], frames[2] })
    expect(here:ask("r1", 9).state).to_be("void")
    here:receive_all({ frames[3] })
    here:settle_down()
    expect(acks(here, "r1")).to_be({ PART, 2 * PART, #BODY })
    expect(here:last_of("error")).to_be(nil)
    expect(machine.disk.nodes.f).to_be(nil)
  end)

  it("is refused when the whole is not what the header names", function()
    local here, machine = welcomed()
    local frames = client.parts("r1", 5, "fs_write", WRITE, BODY)
    frames[2] = frames[2]:gsub("f0123", "f0124", 1)
    here:receive_all(frames)
    here:settle_down()
    expect(here:last_of("error").code).to_be("bad_frame")
    expect(here:last_of("error").call_id).to_be("r1")
    expect(machine.disk.nodes.f).to_be(nil)
    expect(here:ask("r1", 6).state).to_be("void")
  end)

  it("is refused when a part was lost, or is another's", function()
    local here, machine = welcomed()
    local frames = client.parts("r1", 5, "fs_write", WRITE, BODY)
    here:receive_all({ frames[1], frames[3] })
    expect(here:last_of("error").call_id).to_be("r1")
    here:receive_all({ frames[2], frames[3] })
    local other = client.parts("r2", 5, "fs_write", WRITE, BODY)
    local strange = client.parts("r2", 5, "fs_write", WRITE, BODY .. "!")
    here:receive_all({ other[1], strange[2], other[3] })
    here:settle_down()
    expect(here:count("error")).to_be(2)
    expect(here:last_of("error").call_id).to_be("r2")
    expect(acks(here, "r1")).to_be({ PART, #BODY, 2 * PART, #BODY })
    expect(machine.disk.nodes.f).to_be(nil)
  end)

  it("is refused when eight others are half here", function()
    local here, machine = welcomed()
    for index = 1, 8 do
      here:receive_all({ client.parts("r" .. index, 5, "fs_write", WRITE, BODY)[1] })
    end
    here:receive_all(client.parts("r9", 5, "fs_write", WRITE, BODY))
    here:settle_down()
    expect(here:last_of("call_refused").call_id).to_be("r9")
    expect(here:last_of("call_refused").code).to_be("busy")
    expect(#acks(here, "r9")).to_be(3)
    expect(machine.disk.nodes.f).to_be(nil)
    here:ask("r1", 6)
    here:receive_all(client.parts("r10", 6, "fs_write", WRITE, BODY))
    here:settle_down()
    expect(here:last("r10").ok).to_be(true)
  end)

  it("is answered, not run again, when it is known", function()
    local here, machine = welcomed()
    local frames = client.parts("r1", 5, "fs_write", WRITE, BODY)
    here:receive_all(frames)
    here:settle_down()
    machine.disk.nodes.f = nil
    here:receive_all(frames)
    here:settle_down()
    expect(here:count("result")).to_be(2)
    expect(#acks(here, "r1")).to_be(6)
    expect(machine.disk.nodes.f).to_be(nil)
  end)

  spec.long("may have 2 MiB", function()
    local here, machine = welcomed({ capacity = 5000000 })
    local body = BODY:rep(30):sub(1, 2097152)
    here:receive_all(client.parts("r1", 5, "fs_write", WRITE, body))
    here:settle_down()
    expect(here:last("r1").data.size).to_be(2097152)
    expect(machine.disk.nodes.f == body).to_be(true)
    here:receive({ type = "result_ack", call_id = "r1", number = 7 })
  end)
end)

describe("a result in parts", function()
  local function with_big(bytes)
    local here, machine = welcomed({ capacity = 5000000 })
    machine.disk.nodes.big = bytes
    return here, machine
  end

  it("comes whole, with at most eight frames unacknowledged", function()
    local body = BODY:rep(5)
    local here = with_big(body)
    read(here, "r1")
    here:settle_down()
    expect(frames_out(here)).to_be(8)
    here:receive({ type = "chunk_ack", call_id = "r1", offset = PART })
    expect(frames_out(here)).to_be(9)
    -- One that was lost on the way is made good by the next.
    here:receive({ type = "chunk_ack", call_id = "r1", offset = 3 * PART })
    expect(frames_out(here)).to_be(11)
    local result = here:whole_result("r1")
    expect(result.bytes == body).to_be(true)
    expect(result.data.sha256).to_be(sha256.hex(body))
  end)

  it("waits its turn, while small messages overtake it", function()
    local here = with_big(BODY:rep(5))
    read(here, "r1")
    read(here, "r2")
    here:settle_down()
    expect(here:call("r3", 5, "fs_list", { path = "" }).ok).to_be(true)
    expect(here:last("r2").type).to_be("ack")
    here:whole_result("r1")
    expect(here:last("r2").type).to_be("chunk")
    expect(here:whole_result("r2").bytes == BODY:rep(5)).to_be(true)
  end)

  it("ends a connection that acknowledges nothing, and comes again when it is settled", function()
    local body = BODY:rep(5)
    local here, machine = with_big(body)
    read(here, "r1")
    here:settle_down()
    machine.now_ms = machine.now_ms + 44000
    here:receive({ type = "ping", n = 1 })
    here.session:tick()
    expect(here.session.over).to_be(false)
    machine.now_ms = machine.now_ms + 2000
    here.session:tick()
    expect(here.session.over).to_be(true)
    here:welcome(6)
    here:receive({ type = "settle", number = 7, call_ids = json.array({ "r1" }) })
    -- Settled stands for the result too, so it comes behind it.
    expect(here:last_of("settled")).to_be(nil)
    expect(here:whole_result("r1").bytes == body).to_be(true)
    expect(json.decode(here:last_of("settled").bytes)[1].state).to_be("finished")
  end)

  it("is not begun twice when it is settled on its way", function()
    local here = with_big(BODY:rep(5))
    read(here, "r1")
    here:settle_down()
    here:receive({ type = "settle", number = 7, call_ids = json.array({ "r1", "r2" }) })
    here:whole_result("r1")
    expect(here:count("result")).to_be(1)
    local list = json.decode(here:last_of("settled").bytes)
    expect(list[1].state .. " " .. list[2].state).to_be("finished void")
  end)

  it("is sent before its settled even if it was ready after the question", function()
    local here, machine = with_big(BODY:rep(5))
    machine.disk.nodes.other = BODY
    read(here, "r1")
    here:settle_down()
    here:send_call("r2", 5, "fs_read", { path = "other" })
    here:receive({ type = "settle", number = 7, call_ids = json.array({ "r1", "r2" }) })
    here:settle_down()
    here:whole_result("r1")
    here:whole_result("r2")
    expect(here.sent[#here.sent].type).to_be("settled")
    expect(json.decode(here.sent[#here.sent].bytes)[2].state).to_be("finished")
  end)

  it("is given up when the server says that it came broken", function()
    local here = with_big(BODY:rep(5))
    read(here, "r1")
    here:settle_down()
    here:receive({ type = "error", code = "bad_frame", message = "m", call_id = "r1" })
    for offset = 1, 8 do
      here:receive({ type = "chunk_ack", call_id = "r1", offset = offset * PART })
    end
    expect(frames_out(here)).to_be(8)
    read(here, "r2")
    here:settle_down()
    expect(here:whole_result("r2").bytes == BODY:rep(5)).to_be(true)
  end)

  it("is not remembered by a chunk_ack that nobody waits for", function()
    local here = with_big(BODY)
    here:receive({ type = "chunk_ack", call_id = "none", offset = 1 })
    read(here, "r1")
    here:settle_down()
    expect(here:whole_result("r1").bytes == BODY).to_be(true)
    here:receive({ type = "result_ack", call_id = "r1", number = 8 })
    expect(here:last_of("error")).to_be(nil)
  end)
end)

describe("300 kB", function()
  --- Instructions that a turn of the computer may take: 2 KiB of SHA-256 are half of it, and take 4 ms in the game.
  local STEP, MOST = 1000, 320000

  --- A client that counts: the function that runs one turn, and the one that tells the longest, in instructions.
  local function counted()
    local here, machine = welcomed()
    local count, longest = 0, 0
    local function tally()
      count = count + STEP
    end
    function here.loop.spawn(loop, body, ...)
      -- A hook is of one coroutine, and each job has its own.
      return Loop.spawn(loop, function(...)
        debug.sethook(tally, "", STEP)
        body(...)
      end, ...)
    end
    local function turn(body, ...)
      count = 0
      debug.sethook(tally, "", STEP)
      body(...)
      debug.sethook()
      longest = math.max(longest, count)
    end
    --- Runs what is queued; how many turns that took, and the longest of all until now.
    local function turns()
      local number = 0
      while machine.events[1] do
        turn(here.loop.event, here.loop, table.remove(machine.events, 1))
        number = number + 1
      end
      return number, longest
    end
    return here, machine, turn, turns
  end

  it("are taken, hashed and written in short turns, three at once", function()
    local here, machine, turn, turns = counted()
    for index = 1, 3 do
      local body = BODY:rep(4):sub(index, index + 299999)
      local params = { path = "f" .. index, if_hash = "absent" }
      for _, frame in ipairs(client.parts("r" .. index, 5, "fs_write", params, body)) do
        turn(here.session.receive, here.session, frame, true)
      end
    end
    local _, longest = turns()
    for index = 1, 3 do
      expect(here:last("r" .. index).ok).to_be(true)
      expect(#machine.disk.nodes["f" .. index]).to_be(300000)
    end
    expect(longest > MOST / 2).to_be(true)
    expect(longest < MOST).to_be(true)
  end)

  it("are hashed once where they are read, changed and read again, in short turns", function()
    local here, machine, turn, turns = counted()
    machine.disk.nodes.f = BODY:rep(4):sub(1, 299990) .. "unique"
    local function ask(id, method, params, body)
      turn(here.send_call, here, id, 5, method, params, body)
      return turns()
    end
    local hashing, before = ask("r1", "fs_read", { path = "f" }), here:whole_result("r1")
    expect(hashing >= math.floor(299990 / sha256.SLICE_BYTES)).to_be(true)
    local changing =
      ask("r2", "fs_edit", { path = "f", if_hash = before.data.sha256, old_size = 6 }, "uniquechanged")
    local changed, reading, longest = here:last("r2"), ask("r3", "fs_read", { path = "f" })
    expect(changed.ok).to_be(true)
    expect(changing < hashing + 10).to_be(true)
    expect(reading < 10).to_be(true)
    local after = here:whole_result("r3")
    expect(after.data.sha256).to_be(changed.data.sha256)
    expect(after.bytes == machine.disk.nodes.f).to_be(true)
    expect(longest < MOST).to_be(true)
  end)
end)
