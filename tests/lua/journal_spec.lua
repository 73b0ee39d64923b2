local computer = require("computer")
local Journal = require("journal")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local A, B = ".cc-orchestrator/journal.a", ".cc-orchestrator/journal.b"

local function begun(boot)
  local journal = Journal.open(boot)
  assert(journal:begin({}))
  return journal
end

local function set_fence(journal, fence)
  return journal:commit(function(state)
    state.fence = fence
  end)
end

describe("journal", function()
  it("takes the space of both slots at install", function()
    local disk = computer.new().disk
    begun("one")
    expect(#disk.nodes[A]).to_be(8192)
    expect(#disk.nodes[B]).to_be(8192)
  end)

  it("keeps everything over a boot, and notes the sequence it found", function()
    computer.new()
    local journal = begun("one")
    journal:commit(function(state)
      state.fence, state.highest, state.found_seq = 12, 34, nil
      state.calls["run-1"] = { state = "ok", hash = ("a"):rep(64) }
      state.calls["run-2"] = { state = "failed", code = "stale" }
      state.calls["run-3"] = { state = "ok" }
      state.calls["run-4"] = { state = "unknown" }
      state.calls["run-5"] = { state = "open", number = 30 }
    end)
    local seq = journal.state.seq
    local state = begun("two").state
    expect(state.fence).to_be(12)
    expect(state.highest).to_be(34)
    expect(state.found_seq).to_be(seq)
    expect(state.calls["run-1"]).to_be({ state = "ok", hash = ("a"):rep(64) })
    expect(state.calls["run-2"]).to_be({ state = "failed", code = "stale" })
    expect(state.calls["run-3"]).to_be({ state = "ok" })
    expect(state.calls["run-4"]).to_be({ state = "unknown" })
    expect(state.calls["run-5"]).to_be({ state = "interrupted" })
  end)

  it("keeps the lowest sequence that was found", function()
    computer.new()
    local first = begun("one")
    first:commit(function(state)
      state.found_seq = nil
    end)
    local found = first.state.seq
    begun("two")
    expect(begun("three").state.found_seq).to_be(found)
  end)

  it("falls back to the other slot when one is torn", function()
    local disk = computer.new().disk
    local journal = begun("one")
    set_fence(journal, 5)
    set_fence(journal, 6)
    local newest = journal.newest == "a" and A or B
    for _, torn in ipairs({
      "",
      disk.nodes[newest]:sub(1, 100),
      (disk.nodes[newest]:gsub("fence 6", "fence 9")),
    }) do
      disk.nodes[newest] = torn
      expect(Journal.open("two").state.fence).to_be(5)
    end
  end)

  it("begins anew when both slots are torn, and says that nothing was found", function()
    local disk = computer.new().disk
    set_fence(begun("one"), 5)
    disk.nodes[A], disk.nodes[B] = disk.nodes[A]:sub(1, 8000), "x"
    local journal = Journal.open("two")
    expect(journal.found).to_be(false)
    assert(journal:begin({}))
    expect(journal.state.fence).to_be(0)
    expect(journal.state.found_seq).to_be(0)
  end)

  it("loses at most the write that was cut, at every change", function()
    for at = 1, 4 do
      local machine = computer.new()
      local journal = begun("one")
      set_fence(journal, 5)
      machine.die_at(at)
      local written = set_fence(journal, 6)
      machine.revive()
      local fence = Journal.open("two").state.fence
      expect(fence == 6 or not written and fence == 5).to_be(true)
    end
  end)

  it("stops when another client writes", function()
    computer.new()
    local mine = begun("one")
    begun("two")
    local ok, why = set_fence(mine, 9)
    expect(ok).to_be(nil)
    expect(why).to_contain("Another client")
    expect(mine.stopped).to_be(true)
    expect(Journal.open("three").state.fence).to_be(0)
  end)

  it("refuses to write on a full disk, and changes nothing", function()
    local machine = computer.new()
    machine.disk.capacity = 9000
    expect((Journal.open("one"):begin({}))).to_be(nil)
    machine.disk.capacity = 1000000
    local journal = begun("two")
    machine.disk.capacity = 10
    expect((set_fence(journal, 7))).to_be(nil)
    expect(journal.state.fence).to_be(0)
    machine.disk.capacity = 1000000
    expect(set_fence(journal, 8)).to_be(true)
    expect(Journal.open("three").state.fence).to_be(8)
  end)

  it("holds 8 open calls and 64 outcomes of the longest kind", function()
    computer.new()
    local journal = begun(("b"):rep(16))
    local ok = journal:commit(function(state)
      for index = 1, 72 do
        local id = ("%024d"):format(index)
        state.calls[id] = { state = "ok", hash = ("f"):rep(64) }
      end
      state.fence, state.highest, state.found_seq = 1e13, 1e13, 1e13
    end)
    expect(ok).to_be(true)
  end)

  it("writes nothing when the change says so", function()
    computer.new()
    local journal = begun("one")
    local seq = journal.state.seq
    journal:commit(function()
      return false
    end)
    expect(journal.state.seq).to_be(seq)
  end)
end)
