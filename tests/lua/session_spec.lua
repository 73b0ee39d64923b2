local client = require("client")
local computer = require("computer")
local json = require("json")
local sha256 = require("sha256")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local function welcomed()
  local machine = computer.new()
  return client.boot(machine):welcome(5), machine
end

local WRITE = { path = "f", if_hash = "absent" }

describe("session", function()
  it("says hello with what the journal holds, and raises the fence at welcome", function()
    local here, machine = welcomed()
    expect(here.sent[1].type).to_be("hello")
    expect(here.sent[1].found_seq).to_be(0)
    expect(here.sent[1].journal_seq).to_be(2)
    expect(here.journal.state.fence).to_be(5)
    here:call("r1", 5, "fs_write", WRITE, "x")
    local again = client.boot(machine):connect()
    expect(again.sent[1].calls).to_be({ "r1" })
    expect(again.sent[1].highest).to_be(5)
    expect(again.sent[1].found_seq).to_be(here.journal.state.seq)
  end)

  it("does not answer for a computer on which another client has begun", function()
    local here, machine = welcomed()
    here:receive({ type = "ping", n = 1 })
    expect(here.sent[#here.sent].type).to_be("pong")
    local again = client.boot(machine):welcome(6)
    local said = #here.sent
    here:receive({ type = "ping", n = 2 })
    expect(#here.sent).to_be(said)
    expect(here.session.over).to_be(true)
    expect(here.journal.stopped).to_be(true)
    again:receive({ type = "ping", n = 1 })
    expect(again.sent[#again.sent].n).to_be(1)
  end)

  it("never lowers its fence", function()
    local here = welcomed()
    here:ask("r1", 9)
    here:welcome(3)
    expect(here.journal.state.fence).to_be(9)
  end)

  it("acknowledges a call, then answers, the outcome on disk before", function()
    local here = welcomed()
    here:call("r1", 5, "fs_write", WRITE, "x")
    local kinds = {}
    for _, message in ipairs(here.sent) do
      kinds[#kinds + 1] = message.type
    end
    expect(kinds).to_be({ "hello", "ack", "result" })
    expect(here.sent[3].journal_seq).to_be(here.journal.state.seq)
    expect(here.journal.state.calls.r1).to_be({ state = "ok", hash = sha256.hex("x") })
    expect(here.sent[3].data).to_be({ size = 1, sha256 = sha256.hex("x"), before = "absent" })
  end)

  it("refuses a call below the fence, and leaves nothing behind", function()
    local here, machine = welcomed()
    local answer = here:call("r1", 4, "fs_write", WRITE, "x")
    expect(answer.type).to_be("call_refused")
    expect(answer.code).to_be("below_fence")
    expect(machine.disk.nodes.f).to_be(nil)
    expect(machine.disk.nodes[".cc-orchestrator/swap/r1.new"]).to_be(nil)
    expect(here:ask("r1", 6).state).to_be("void")
  end)

  it("refuses a call that a settle overtook while it was prepared", function()
    local here, machine = welcomed()
    here:send_call("r1", 5, "fs_write", WRITE, ("x"):rep(40000))
    expect(here:last("r1")).to_be(nil)
    -- Even one whose number would pass the new fence: it was called void.
    expect(here:ask("r1", 5).state).to_be("void")
    here:settle_down()
    expect(here:last("r1").code).to_be("below_fence")
    expect(machine.disk.nodes.f).to_be(nil)
  end)

  it("never runs a call that was not started when its session ended", function()
    local here, machine = welcomed()
    here:send_call("r1", 5, "fs_write", WRITE, ("x"):rep(40000))
    here.session:finish("gone")
    here:settle_down()
    expect(machine.disk.nodes.f).to_be(nil)
    expect(here.journal.state.calls).to_be({})
  end)

  it("runs a call once, however often it comes", function()
    local here, machine = welcomed()
    here:send_call("r1", 5, "fs_write", WRITE, ("x"):rep(40000))
    here:send_call("r1", 5, "fs_write", WRITE, ("x"):rep(40000))
    here:settle_down()
    machine.disk.nodes.f = nil
    local again = here:call("r1", 5, "fs_write", WRITE, ("x"):rep(40000))
    expect(again.type).to_be("result")
    expect(again.ok).to_be(true)
    expect(machine.disk.nodes.f).to_be(nil)
  end)

  it("answers ack again for a call that is running", function()
    local here, machine = welcomed()
    machine.disk.nodes.p = "os.pullEvent('go')"
    local params = { path = "p", if_hash = sha256.hex(machine.disk.nodes.p), timeout_s = 1000 }
    expect(here:call("r1", 5, "run_program", params, "[]").type).to_be("ack")
    here.sent = {}
    here:send_call("r1", 5, "run_program", params, "[]")
    expect(here:last("r1").type).to_be("ack")
    expect(here:ask("r1", 6).state).to_be("running")
    os.queueEvent("go")
    here:settle_down()
    expect(here:last("r1").type).to_be("result")
  end)

  it("is busy with 8 open calls", function()
    local here, machine = welcomed()
    machine.disk.nodes.p = "os.pullEvent('go')"
    local params = { path = "p", if_hash = sha256.hex(machine.disk.nodes.p), timeout_s = 1000 }
    for index = 1, 8 do
      here:call("r" .. index, 5, "run_program", params, "[]")
    end
    local answer = here:call("r9", 5, "fs_list", { path = "" })
    expect(answer.type).to_be("call_refused")
    expect(answer.code).to_be("busy")
    os.queueEvent("go")
    here:settle_down()
    expect(here:call("r10", 5, "fs_list", { path = "" }).ok).to_be(true)
  end)

  it("is busy with 64 outcomes that are not acknowledged", function()
    local here = welcomed()
    for index = 1, 64 do
      expect(here:call("r" .. index, 5, "fs_list", { path = "" }).ok).to_be(true)
    end
    expect(here:call("x", 5, "fs_list", { path = "" }).code).to_be("busy")
    here:receive({ type = "result_ack", call_id = "r1", number = 6 })
    expect(here.journal.state.highest).to_be(6)
    expect(here:call("y", 5, "fs_list", { path = "" }).ok).to_be(true)
  end)

  it("hears nothing but welcome before welcome", function()
    local machine = computer.new()
    local here = client.boot(machine):connect()
    here:send_call("r1", 5, "fs_write", WRITE, "x")
    expect(here:last("r1").type).to_be("error")
    expect(here:last("r1").code).to_be("not_welcomed")
    here:receive({ type = "ping", n = 3 })
    expect(here:last_of("pong").n).to_be(3)
    expect(machine.disk.nodes.f).to_be(nil)
  end)

  it("answers a call that asks for nonsense, and goes on", function()
    local here, machine = welcomed()
    machine.disk.nodes.d = true
    local cases = {
      { "no_such_method", {}, "unknown_method" },
      { "fs_read", {}, "bad_params" },
      { "fs_read", { path = 5 }, "bad_params" },
      { "fs_read", { path = "a", extra = true }, "bad_params" },
      { "fs_read", { path = "a:b" }, "bad_path" },
      { "fs_read", { path = "none" }, "not_found" },
      { "fs_read", { path = "d" }, "is_directory" },
      { "fs_list", { path = "none" }, "not_found" },
      { "fs_write", { path = "f", if_hash = "x" }, "bad_params" },
      { "fs_write", { path = "f", if_hash = "absent" }, "bad_params" },
      { "fs_delete", { path = "", if_hash = "absent" }, "access_denied" },
      { "fs_delete", { path = "rom/x", if_hash = "absent" }, "read_only" },
      { "fs_delete", { path = "none", if_hash = "absent" }, "not_found" },
      { "fs_delete", { path = "d", if_hash = "absent" }, "stale" },
      { "fs_read", { path = ".CC-orchestrator/connection" }, "access_denied" },
      { "run_program", { path = "none", if_hash = ("0"):rep(64), timeout_s = 5 }, "not_found" },
      { "run_program", { path = "d", if_hash = ("0"):rep(64), timeout_s = 5 }, "is_directory" },
      { "run_program", { path = "p", if_hash = ("0"):rep(64), timeout_s = 0 }, "bad_params" },
      { "run_program", { path = "p", if_hash = "absent", timeout_s = 5 }, "bad_params" },
    }
    for index, case in ipairs(cases) do
      local answer = here:call("r" .. index, 5, case[1], case[2])
      expect(case[1] .. " " .. tostring(answer.code)).to_be(case[1] .. " " .. case[3])
    end
    expect(here:call("last", 5, "fs_list", { path = "" }).ok).to_be(true)
  end)

  it("compares hashes, and says what is really there", function()
    local here, machine = welcomed()
    machine.disk.nodes.f = "old"
    local answer = here:call("r1", 5, "fs_write", WRITE, "x")
    expect(answer.code).to_be("stale")
    expect(answer.data.actual).to_be(sha256.hex("old"))
    machine.disk.nodes.p = "print(1)"
    answer = here:call("r2", 5, "run_program", { path = "p", if_hash = ("0"):rep(64), timeout_s = 5 })
    expect(answer.data.actual).to_be(sha256.hex("print(1)"))
    expect(machine.disk.nodes.f).to_be("old")
  end)

  it("runs what a word means, unless it means another program by now", function()
    local here, machine = welcomed()
    machine.disk.nodes.p, machine.disk.nodes.q = "return", "print(2)"
    local means = "p"
    shell = {
      setDir = function() end,
      resolveProgram = function()
        return means
      end,
    }
    local params = { path = "p", if_hash = sha256.hex("return"), timeout_s = 5 }
    expect(here:call("r1", 5, "shell", params, '["word","argument"]').ok).to_be(true)
    expect(here:call("r2", 5, "fs_stat", { command = "word" }).data.path).to_be("p")
    means = "q"
    local answer = here:call("r3", 5, "shell", params, '["word"]')
    expect(answer.code).to_be("stale")
    expect(answer.data).to_be({ actual = sha256.hex("print(2)"), path = "q" })
    means = nil
    expect(here:call("r4", 5, "shell", params, '["word"]').code).to_be("not_found")
    expect(here:call("r5", 5, "shell", params, "[]").code).to_be("bad_params")
    expect(here:call("r6", 5, "shell", params, "[1]").code).to_be("bad_params")
    shell = nil
  end)

  it("notices a change made between the hash and the step", function()
    local here, machine = welcomed()
    machine.disk.nodes.f = ("o"):rep(20000)
    here:send_call("r1", 5, "fs_write", { path = "f", if_hash = sha256.hex(machine.disk.nodes.f) }, "x")
    machine.disk.nodes.f = ("p"):rep(20000)
    here:settle_down()
    expect(here:last("r1").code).to_be("stale")
    expect(machine.disk.nodes.f).to_be(("p"):rep(20000))
  end)

  it("lists and reads", function()
    local here, machine = welcomed()
    machine.disk.nodes["d"], machine.disk.nodes["d/b"], machine.disk.nodes["d/a"] = true, "\0\255", true
    local answer = here:call("r1", 5, "fs_list", { path = "d" })
    expect(json.decode(answer.bytes)).to_be({
      { name = "a", dir = true, size = 0 },
      { name = "b", dir = false, size = 2 },
    })
    answer = here:call("r2", 5, "fs_read", { path = "d/b" })
    expect(answer.bytes).to_be("\0\255")
    machine.disk.capacity = 4000000
    machine.disk.nodes.big = ("x"):rep(2097153)
    expect(here:call("r3", 5, "fs_read", { path = "big" }).data.size).to_be(2097153)
    expect(here:last("r3").code).to_be("too_large")
  end)

  it("settles with results that are still in memory, and without after a reboot", function()
    local here, machine = welcomed()
    here:call("r1", 5, "fs_write", WRITE, "x")
    here:welcome(6)
    local entry = here:ask("r1", 7)
    expect(entry).to_be({ call_id = "r1", state = "finished", ok = true, sha256 = sha256.hex("x") })
    expect(here:last("r1").type).to_be("result")
    local again = client.boot(machine):welcome(8)
    expect(again:ask("r1", 9).state).to_be("finished")
    expect(again:last("r1")).to_be(nil)
  end)

  it("forgets an outcome only when it is acknowledged, and for good", function()
    local here, machine = welcomed()
    here:call("r1", 5, "fs_write", WRITE, "x")
    here:receive({ type = "result_ack", call_id = "r1", number = 8 })
    expect(here:ask("r1", 9).state).to_be("void")
    expect(client.boot(machine).journal.state.highest).to_be(9)
  end)

  it("says interrupted of a program that a reboot ended", function()
    local here, machine = welcomed()
    machine.disk.nodes.p = "os.pullEvent('go')"
    local params = { path = "p", if_hash = sha256.hex(machine.disk.nodes.p), timeout_s = 1000 }
    here:call("r1", 5, "run_program", params, "[]")
    local again = client.boot(machine):welcome(6)
    expect(again:ask("r1", 7).state).to_be("interrupted")
    again:send_call("r1", 7, "run_program", params, "[]")
    expect(again:last("r1").type).to_be("error")
  end)

  it("refuses a call whose record cannot be written, before anything is touched", function()
    local here, machine = welcomed()
    machine.disk.nodes.f = "old"
    -- Five changes make the swap files; the sixth is the journal's.
    machine.die_at(6)
    local params = { path = "f", if_hash = sha256.hex("old") }
    local answer = here:call("r1", 5, "fs_write", params, "x")
    expect(answer.type).to_be("call_refused")
    expect(answer.code).to_be("journal_failed")
    expect(machine.disk.nodes.f).to_be("old")
  end)

  it("survives garbage, and ends a connection only after 17 broken frames", function()
    local here = welcomed()
    for index = 1, 16 do
      here.session:receive(("\0garbage"):rep(index), true)
    end
    here.session:receive("{}\n", false)
    expect(here.session.over).to_be(true)
    here:welcome(6)
    here.session:receive(("x"):rep(53250), true)
    expect(here.session.over).to_be(true)
    expect(here:welcome(7):call("r1", 7, "fs_list", { path = "" }).ok).to_be(true)
  end)

  it("answers a second welcome and an unknown result_ack without harm", function()
    local here = welcomed()
    here:receive({ type = "welcome", number = 50, computer = "x", silence_s = 45 })
    expect(here:last_of("error").code).to_be("out_of_order")
    expect(here.journal.state.fence).to_be(5)
    here:receive({ type = "result_ack", call_id = "none", number = 70 })
    expect(here.journal.state.highest).to_be(70)
  end)

  it("refuses a body that is not what the header says", function()
    local here, machine = welcomed()
    local header =
      { type = "call", call_id = "r1", task = "t", number = 5, method = "fs_write", params = WRITE }
    header.body = { offset = 0, total = 1, sha256 = ("0"):rep(64) }
    here.session:receive(json.encode(header) .. "\nx", true)
    here:settle_down()
    expect(here:last("r1").type).to_be("error")
    expect(machine.disk.nodes.f).to_be(nil)
    expect(here:ask("r1", 6).state).to_be("void")
  end)

  it("gives up a server that is silent", function()
    local here, machine = welcomed()
    machine.now_ms = machine.now_ms + 44000
    here.session:tick()
    expect(here.session.over).to_be(false)
    machine.now_ms = machine.now_ms + 2000
    here.session:tick()
    expect(here.session.over).to_be(true)
    expect(here.closed).to_be(true)
  end)

  it("keeps answers within a header, however odd the names", function()
    local here, machine = welcomed()
    local name = ("\255"):rep(240)
    local path = name .. "/" .. name
    machine.disk.nodes[name], machine.disk.nodes[path] = true, "print(1)"
    local params = { path = path, if_hash = sha256.hex("print(1)"), timeout_s = 5 }
    -- 480 such bytes fill a header; the call comes through, and so does its outcome.
    expect(here:call("r1", 5, "run_program", params, "[]").ok).to_be(true)
  end)
end)
