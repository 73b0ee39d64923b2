local client = require("client")
local computer = require("computer")
local sha256 = require("sha256")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local OLD, NEW = "old bytes", "the new bytes \0\255"

--- More changes than any call makes.
local LAST_CHANGE = 40

local function swap_files(disk)
  local names = {}
  for path in pairs(disk.nodes) do
    names[#names + 1] = path:match("swap/(.+)$")
  end
  table.sort(names)
  return names
end

local CASES = {
  {
    name = "a write over a file",
    before = { ["dir"] = true, ["dir/file"] = OLD },
    method = "fs_write",
    path = "dir/file",
    if_hash = sha256.hex(OLD),
    body = NEW,
    after = { ["dir"] = true, ["dir/file"] = NEW },
    hash = sha256.hex(NEW),
  },
  {
    name = "a write of a new file",
    before = {},
    method = "fs_write",
    path = "a/b/file",
    if_hash = "absent",
    body = NEW,
    after = { ["a"] = true, ["a/b"] = true, ["a/b/file"] = NEW },
    hash = sha256.hex(NEW),
  },
  {
    name = "a delete of a file",
    before = { file = OLD },
    method = "fs_delete",
    path = "file",
    if_hash = sha256.hex(OLD),
    after = {},
    hash = "absent",
  },
  {
    name = "a delete of a directory",
    before = { d = true, ["d/x"] = OLD, ["d/y"] = true },
    method = "fs_delete",
    path = "d",
    if_hash = sha256.hex("x\0file\0" .. sha256.hex(OLD) .. "\ny\0directory\0-\n"),
    after = {},
    hash = "absent",
  },
  {
    name = "a write on a disk",
    before = { ["disk"] = true, ["disk/file"] = OLD },
    method = "fs_write",
    path = "disk/file",
    if_hash = sha256.hex(OLD),
    body = NEW,
    after = { ["disk"] = true, ["disk/file"] = NEW },
    hash = sha256.hex(NEW),
  },
}

--- The player's files; directories made for a new file may stay behind.
local function players(disk, case)
  local nodes = {}
  for path, node in pairs(disk.nodes) do
    if path ~= "" and not path:find(".cc-orchestrator", 1, true) then
      nodes[path] = node
    end
  end
  for path, node in pairs(case.after) do
    if node == true and not case.before[path] and not nodes[case.path] then
      nodes[path] = nil
    end
  end
  return nodes
end

local function prepared(case)
  local machine = computer.new()
  for path, node in pairs(case.before) do
    machine.disk.nodes[path] = node
  end
  return machine, client.boot(machine):welcome(5)
end

local function params_of(case)
  return { path = case.path, if_hash = case.if_hash }
end

--- After the power is back: the files are the old or the new ones and the journal says which.
local function check_after_reboot(case, machine, was_answered)
  local again = client.boot(machine):welcome(10)
  local entry = again:ask("run-1", 11)
  if entry.state == "finished" and entry.ok then
    expect(entry.sha256).to_be(case.hash)
    expect(players(machine.disk, case)).to_be(case.after)
  else
    local not_done = entry.state == "void" or entry.state == "finished" and entry.code == "not_done"
    expect(not_done).to_be(true)
    expect(was_answered).to_be(false)
    expect(players(machine.disk, case)).to_be(case.before)
  end
  expect(swap_files(machine.disk)).to_be({})
  again:receive({ type = "result_ack", call_id = "run-1", number = 12 })
  expect(again:ask("run-1", 13).state).to_be("void")
  return entry.state == "void" and "void" or entry.code or "done"
end

local function answered(session_client)
  local result = session_client:last("run-1")
  return result ~= nil and result.type == "result" and result.ok
end

describe("swap", function()
  for _, case in ipairs(CASES) do
    it("does " .. case.name, function()
      local machine, first = prepared(case)
      local result = first:call("run-1", 6, case.method, params_of(case), case.body)
      expect(result.ok).to_be(true)
      expect(result.data.before).to_be(case.if_hash)
      expect(players(machine.disk, case)).to_be(case.after)
      expect(swap_files(machine.disk)).to_be({})
    end)

    it("leaves old or new and the true outcome wherever the power goes in " .. case.name, function()
      local seen = {}
      for at = 1, LAST_CHANGE do
        local machine, first = prepared(case)
        machine.die_at(at)
        first:call("run-1", 6, case.method, params_of(case), case.body)
        machine.revive()
        seen[check_after_reboot(case, machine, answered(first))] = true
      end
      expect(seen).to_be({ void = true, not_done = true, done = true })
    end)

    it("is right when the power goes again while it mends " .. case.name, function()
      for at = 1, LAST_CHANGE do
        for again = 1, 12 do
          local machine, first = prepared(case)
          machine.die_at(at)
          first:call("run-1", 6, case.method, params_of(case), case.body)
          local was_answered = answered(first)
          machine.die_at(again)
          machine.disk.dead = nil
          client.boot(machine)
          machine.revive()
          check_after_reboot(case, machine, was_answered)
        end
      end
    end)
  end

  it("says unknown, and keeps everything, when somebody took the place", function()
    local case = CASES[1]
    local seen_unknown = false
    for at = 1, LAST_CHANGE do
      local machine, first = prepared(case)
      machine.die_at(at)
      first:call("run-1", 6, case.method, params_of(case), case.body)
      machine.revive()
      local half = machine.disk.nodes[".cc-orchestrator/swap/run-1.new"]
        and not machine.disk.nodes["dir/file"]
      if half then
        machine.disk.nodes["dir/file"] = "somebody else's"
        local again = client.boot(machine):welcome(10)
        expect(again:ask("run-1", 11).state).to_be("unknown")
        expect(client.boot(machine):welcome(12):ask("run-1", 13).state).to_be("unknown")
        expect(machine.disk.nodes[".cc-orchestrator/swap/run-1.old"]).to_be(OLD)
        expect(machine.disk.nodes["dir/file"]).to_be("somebody else's")
        seen_unknown = true
      end
    end
    expect(seen_unknown).to_be(true)
  end)

  it("needs room for the old and the new file, and says how much is missing", function()
    local machine, first = prepared(CASES[1])
    machine.disk.capacity = machine.disk:used() + 1700
    local big = ("x"):rep(5000)
    local result = first:call("run-1", 6, "fs_write", params_of(CASES[1]), big)
    expect(result.code).to_be("no_space_for_safe_write")
    -- The plan, the directory of swap files and the new bytes.
    expect(result.data.missing).to_be(500 + 500 + 5000 - 1700)
    expect(machine.disk.nodes["dir/file"]).to_be(OLD)
    machine.disk.capacity = machine.disk.capacity + result.data.missing
    expect(first:call("run-2", 7, "fs_write", params_of(CASES[1]), big).ok).to_be(true)
  end)

  it("puts the old file back when the new one cannot take its place", function()
    local machine, first = prepared(CASES[1])
    local move = fs.move
    fs.move = function(from, to)
      if from:find("%.new$") then
        error("/" .. to .. ": Out of space", 0)
      end
      return move(from, to)
    end
    local result = first:call("run-1", 6, "fs_write", params_of(CASES[1]), NEW)
    expect(result.code).to_be("no_space_for_safe_write")
    expect(machine.disk.nodes["dir/file"]).to_be(OLD)
    expect(swap_files(machine.disk)).to_be({})
  end)

  it("says unknown when not even that is possible, and keeps the old bytes for good", function()
    local machine, first = prepared(CASES[1])
    local move = fs.move
    fs.move = function(from, to)
      if from:find("swap/", 1, true) then
        error("/" .. to .. ": Something broke", 0)
      end
      return move(from, to)
    end
    expect(first:call("run-1", 6, "fs_write", params_of(CASES[1]), NEW).ok).to_be(false)
    expect(first:ask("run-1", 7).state).to_be("unknown")
    expect(machine.disk.nodes[".cc-orchestrator/swap/run-1.old"]).to_be(OLD)
    fs.move = move
    local again = client.boot(machine):welcome(8)
    expect(again:ask("run-1", 9).state).to_be("unknown")
    again:receive({ type = "result_ack", call_id = "run-1", number = 10 })
    client.boot(machine):welcome(11)
    expect(swap_files(machine.disk)).to_be({ "run-1.new", "run-1.old" })
    expect(machine.disk.nodes[".cc-orchestrator/swap/run-1.old"]).to_be(OLD)
  end)

  it("leaves the swap files of another computer alone", function()
    local machine, first = prepared(CASES[5])
    machine.die_at(6)
    first:call("run-1", 6, CASES[5].method, params_of(CASES[5]), NEW)
    machine.revive()
    local before = swap_files(machine.disk)
    expect(#before > 0).to_be(true)
    os.getComputerID = function()
      return 8
    end
    client.boot(machine)
    expect(#swap_files(machine.disk)).to_be(#before)
  end)
end)
