local computer = require("computer")
local paths = require("paths")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local BECOMES = {
  { "/startup.lua", "startup.lua" },
  { "startup.lua/", "startup.lua" },
  { "./startup.lua", "startup.lua" },
  { "a/../startup.lua", "startup.lua" },
  { "start:up.lua", "startup.lua" },
  { 'start"up.lua', "startup.lua" },
  { "startup.lua?", "startup.lua" },
  { "startup.lu*a", "startup.lua" },
  { " startup.lua ", "startup.lua" },
  { ".../startup.lua", "startup.lua" },
  { "\\startup.lua", "startup.lua" },
  { "start\1up.lua", "startup.lua" },
  { "a//b", "a/b" },
  { "a/ b", "a/b" },
}

describe("paths", function()
  it("says what ComputerCraft would make of a path", function()
    computer.new()
    for _, case in ipairs(BECOMES) do
      local ok, _, becomes = paths.check(case[1])
      expect(ok).to_be(false)
      expect(becomes).to_be(case[2])
    end
  end)

  it("takes canonical paths as they are", function()
    computer.new()
    for _, path in ipairs({ "", "a", "a/b.lua", "..a", "a..", "a b/c", "\255\128", ".settings" }) do
      expect(paths.check(path)).to_be(true)
    end
  end)

  it("refuses to leave the computer", function()
    computer.new()
    for _, path in ipairs({ "..", "../a", "../../a" }) do
      expect((paths.check(path))).to_be(false)
    end
    expect((paths.check(("a/"):rep(300)))).to_be(false)
  end)

  it("cuts a part at 255 bytes", function()
    expect(#paths.canonical(("a"):rep(300))).to_be(255)
  end)

  it("protects the client's own directory in every spelling, on disks too", function()
    for _, path in ipairs({
      ".cc-orchestrator",
      ".cc-orchestrator/journal.a",
      ".CC-Orchestrator/connection",
      "disk/.cc-orchestrator/swap/x.old",
      "disk2/.CC-ORCHESTRATOR",
      ".cc-orchestrator.",
      "CC-ORC~1/connection",
    }) do
      expect(paths.is_protected(path)).to_be(true)
    end
    for _, path in ipairs({ "", "a", "cc-orchestrator", "a/b/.cc-orchestrator", ".cc-orchestrators" }) do
      expect(paths.is_protected(path)).to_be(false)
    end
  end)

  it("knows mounts and parents", function()
    computer.new()
    expect(paths.mount("disk/a/b")).to_be("disk")
    expect(paths.mount("a/b")).to_be("")
    expect(paths.is_mount("disk")).to_be(true)
    expect(paths.is_mount("disk/a")).to_be(false)
    expect(paths.parent("a/b/c")).to_be("a/b")
    expect(paths.parent("a")).to_be("")
  end)
end)
