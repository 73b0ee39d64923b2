local client = require("client")
local computer = require("computer")
local sha256 = require("sha256")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local OLD, NEW = "old bytes", "the new bytes \0\255"

--- More changes than any call makes.
local LAST_CHANGE = 50

local function swap_files(disk)
  local names = {}
  for path in pairs(disk.nodes) do
    names[#names + 1] = path:match("swap/(.+)$")
  end
  table.sort(names)
  return names
end

local TREE_BEFORE = { disk = true, d = true, ["d/x"] = OLD, ["d/y"] = true, ["d/y/z"] = NEW }
local TREE_HASH =
  sha256.hex("x\0file\0" .. sha256.hex(OLD) .. "\ny\0directory\0-\ny/z\0file\0" .. sha256.hex(NEW) .. "\n")

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
  {
    name = "an edit",
    before = { ["dir"] = true, ["dir/file"] = "one two three" },
    method = "fs_edit",
    path = "dir/file",
    if_hash = sha256.hex("one two three"),
    old_size = 3,
    body = "two2 and a half",
    after = { ["dir"] = true, ["dir/file"] = "one 2 and a half three" },
    hash = sha256.hex("one 2 and a half three"),
  },
  {
    name = "a move of a file",
    before = { file = OLD },
    method = "fs_move",
    path = "file",
    to = "a/b/file",
    if_hash = sha256.hex(OLD),
    after = { ["a"] = true, ["a/b"] = true, ["a/b/file"] = OLD },
    hash = sha256.hex(OLD),
  },
  {
    name = "a move of a directory",
    before = TREE_BEFORE,
    method = "fs_move",
    path = "d",
    to = "e",
    if_hash = TREE_HASH,
    after = { disk = true, e = true, ["e/x"] = OLD, ["e/y"] = true, ["e/y/z"] = NEW },
    hash = TREE_HASH,
  },
  {
    name = "a move of a file to a disk",
    before = { disk = true, file = OLD },
    method = "fs_move",
    path = "file",
    to = "disk/a/file",
    if_hash = sha256.hex(OLD),
    after = { ["disk"] = true, ["disk/a"] = true, ["disk/a/file"] = OLD },
    hash = sha256.hex(OLD),
  },
  {
    name = "a move of a directory to a disk",
    before = TREE_BEFORE,
    method = "fs_move",
    path = "d",
    to = "disk/e",
    if_hash = TREE_HASH,
    after = {
      ["disk"] = true,
      ["disk/e"] = true,
      ["disk/e/x"] = OLD,
      ["disk/e/y"] = true,
      ["disk/e/y/z"] = NEW,
    },
    hash = TREE_HASH,
  },
  {
    name = "a move of a file from a disk",
    before = { ["disk"] = true, ["disk/file"] = OLD },
    method = "fs_move",
    path = "disk/file",
    to = "file",
    if_hash = sha256.hex(OLD),
    after = { disk = true, file = OLD },
    hash = sha256.hex(OLD),
  },
  {
    name = "a new directory",
    before = {},
    method = "fs_mkdir",
    path = "a/b/c",
    if_hash = "absent",
    after = { ["a"] = true, ["a/b"] = true, ["a/b/c"] = true },
    hash = sha256.hex(""),
  },
  {
    name = "a file in the place of a directory",
    before = TREE_BEFORE,
    method = "fs_write",
    path = "d",
    if_hash = TREE_HASH,
    replaces = "directory",
    body = NEW,
    after = { disk = true, d = NEW },
    hash = sha256.hex(NEW),
  },
  {
    name = "a directory in the place of a file",
    before = { file = OLD },
    method = "fs_mkdir",
    path = "file",
    if_hash = sha256.hex(OLD),
    replaces = "file",
    after = { file = true },
    hash = sha256.hex(""),
  },
}

local function case_of(name)
  for _, case in ipairs(CASES) do
    if case.name == name then
      return case
    end
  end
end

--- The player's files and directories.
local function players(disk)
  local nodes = {}
  for path, node in pairs(disk.nodes) do
    if path ~= "" and not path:find(".cc-orchestrator", 1, true) then
      nodes[path] = node
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
  local params = { path = case.path, if_hash = case.if_hash, to = case.to, old_size = case.old_size }
  params.if_to, params.replaces = case.to and "absent", case.replaces
  return params
end

--- After the power is back: the files are the old or the new ones and the journal says which.
local function check_after_reboot(case, machine, was_answered)
  local again = client.boot(machine):welcome(10)
  local entry = again:ask("run-1", 11)
  if entry.state == "finished" and entry.ok then
    expect(entry.sha256).to_be(case.hash)
    expect(players(machine.disk)).to_be(case.after)
  else
    local not_done = entry.state == "void" or entry.state == "finished" and entry.code == "not_done"
    expect(not_done).to_be(true)
    expect(was_answered).to_be(false)
    expect(players(machine.disk)).to_be(case.before)
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
      expect(players(machine.disk)).to_be(case.after)
      expect(swap_files(machine.disk)).to_be({})
    end)

    it("leaves old or new and the true outcome wherever the power goes in " .. case.name, function()
      local seen = {}
      for at = 1, LAST_CHANGE do
        local machine, first = prepared(case)
        machine.die_at(at)
        first:call("run-1", 6, case.method, params_of(case), case.body)
        local died = machine.disk.dead
        machine.revive()
        seen[check_after_reboot(case, machine, answered(first))] = true
        if not died then
          break
        end
        expect(at < LAST_CHANGE).to_be(true)
      end
      expect(seen).to_be({ void = true, not_done = true, done = true })
    end)

    it("is right when the power goes again while it mends " .. case.name, function()
      for at = 1, LAST_CHANGE, spec.step(12) do
        local died, died_again
        for again = 1, LAST_CHANGE do
          local machine, first = prepared(case)
          machine.die_at(at)
          first:call("run-1", 6, case.method, params_of(case), case.body)
          local was_answered = answered(first)
          died, machine.disk.dead = machine.disk.dead, nil
          machine.die_at(again)
          client.boot(machine)
          died_again = machine.disk.dead
          machine.revive()
          check_after_reboot(case, machine, was_answered)
          if not died_again then
            break
          end
        end
        expect(died_again).to_be(nil)
        if not died then
          break
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

  --- Sweeps the power cuts of a case, changes what is on the disk where `when` says so, and boots: the
  -- states that the call then has there.
  local function states_after(case, when, meddle)
    local states = {}
    for at = 1, LAST_CHANGE do
      local machine, first = prepared(case)
      machine.die_at(at)
      first:call("run-1", 6, case.method, params_of(case), case.body)
      machine.revive()
      if when(machine.disk.nodes) then
        meddle(machine.disk.nodes, machine)
        local entry = client.boot(machine):welcome(10):ask("run-1", 11)
        expect(client.boot(machine):welcome(12):ask("run-1", 13).state).to_be(entry.state)
        states[entry.state .. " " .. tostring(entry.code)] = machine.disk.nodes
      end
    end
    return states
  end

  local function aside(nodes)
    return nodes[".cc-orchestrator/swap/run-1.old"]
  end

  it("says unknown of a move whose destination somebody took, and keeps everything", function()
    for _, name in ipairs({ "a move of a file", "a move of a file to a disk" }) do
      local case = case_of(name)
      local states = states_after(case, function(nodes)
        return aside(nodes) and not nodes[case.to]
      end, function(nodes)
        nodes[case.to] = "somebody else's"
      end)
      expect(next(states)).to_be("unknown nil")
      expect(next(states, "unknown nil")).to_be(nil)
      local nodes = states["unknown nil"]
      expect(nodes[".cc-orchestrator/swap/run-1.old"]).to_be(OLD)
      expect(nodes[case.to]).to_be("somebody else's")
    end
  end)

  it("says unknown of a move that an old version of the game left in two places", function()
    local case = case_of("a move of a file")
    local states = states_after(case, function(nodes)
      return aside(nodes) and nodes[".cc-orchestrator/swap/run-1.new"]
    end, function(nodes)
      nodes[case.path] = OLD
    end)
    expect(next(states)).to_be("unknown nil")
  end)

  it("says unknown of a move to a disk that is gone", function()
    local case = case_of("a move of a file to a disk")
    local states = states_after(case, aside, function(nodes)
      for path in pairs(nodes) do
        if path:find("^disk") then
          nodes[path] = nil
        end
      end
      local get_drive = fs.getDrive
      fs.getDrive = function(path)
        return not path:find("^disk") and get_drive(path) or nil
      end
    end)
    expect(states["unknown nil"] ~= nil).to_be(true)
    expect(states["unknown nil"][".cc-orchestrator/swap/run-1.old"]).to_be(OLD)
    expect(states["unknown nil"][case.to]).to_be(nil)
    for state in pairs(states) do
      -- Whatever was recorded before the disk went stays so.
      expect(state == "unknown nil" or state == "finished nil").to_be(true)
    end
  end)

  it("puts back what was to be moved when the destination cannot be made", function()
    for _, name in ipairs({ "a move of a directory", "a move of a directory to a disk" }) do
      local case = case_of(name)
      local machine, first = prepared(case)
      local move = fs.move
      fs.move = function(from, to)
        if to == case.to then
          error("/" .. to .. ": Something broke", 0)
        end
        return move(from, to)
      end
      local result = first:call("run-1", 6, case.method, params_of(case))
      expect(result.code).to_be("internal")
      expect(players(machine.disk)).to_be(case.before)
      expect(swap_files(machine.disk)).to_be({})
      expect(first:ask("run-1", 7).state).to_be("finished")
    end
  end)

  it("is right when the power goes while a move is taken back", function()
    local case = case_of("a move of a file")
    local seen = {}
    for at = 1, LAST_CHANGE do
      local machine, first = prepared(case)
      machine.die_at(at)
      local move, broken = fs.move, true
      fs.move = function(from, to)
        if to == case.to and broken then
          error("/" .. to .. ": Something broke", 0)
        end
        return move(from, to)
      end
      first:call("run-1", 6, case.method, params_of(case))
      broken = false
      machine.revive()
      local entry = client.boot(machine):welcome(10):ask("run-1", 11)
      local nodes = players(machine.disk)
      local is_done = entry.state == "finished" and entry.ok
      expect(nodes).to_be(is_done and case.after or case.before)
      seen[entry.state .. tostring(entry.ok)] = true
    end
    expect(seen.finishedtrue and seen.finishedfalse and seen.voidnil).to_be(true)
  end)

  it("needs room on the other disk for a move there", function()
    local case = case_of("a move of a file to a disk")
    local machine, first = prepared(case)
    local free = fs.getFreeSpace
    fs.getFreeSpace = function(path)
      return path:find("^disk") and 1700 or free(path)
    end
    local result = first:call("run-1", 6, case.method, params_of(case))
    -- The copy, the directories of the copy, and that of the destination.
    expect(result.code).to_be("no_space_for_safe_write")
    expect(result.data.missing).to_be(500 + 1000 + 500 - 1700)
    expect(result.data.mount).to_be("disk")
    expect(players(machine.disk)).to_be(case.before)
    expect(swap_files(machine.disk)).to_be({})
  end)

  spec.long("takes 600 kB on a disk of 1 MB, but not over 600 kB", function()
    local machine, first = prepared({ before = {} })
    machine.disk.capacity = 1000000
    local big = ("0123456789"):rep(60000)
    local params = { path = "big", if_hash = "absent" }
    first:receive_all(client.parts("run-1", 6, "fs_write", params, big))
    first:settle_down()
    expect(first:last("run-1").data.size).to_be(600000)
    params = { path = "big", if_hash = sha256.hex(big) }
    first:receive_all(client.parts("run-2", 7, "fs_write", params, big:reverse()))
    first:settle_down()
    local result = first:last("run-2")
    expect(result.code).to_be("no_space_for_safe_write")
    expect(result.data.missing > 200000).to_be(true)
    expect(machine.disk.nodes.big == big).to_be(true)
    expect(swap_files(machine.disk)).to_be({})
  end)

  --- A computer whose disk has no byte free.
  local function full(case)
    local machine, first = prepared(case)
    machine.disk.capacity = machine.disk:used()
    return machine, first
  end

  it("deletes on a full disk, and keeps that possible", function()
    local before = { ["a"] = OLD, ["b"] = OLD, ["c"] = ("x"):rep(5000) }
    local machine, first = full({ before = before })
    for number, path in ipairs({ "a", "b", "c" }) do
      local params = { path = path, if_hash = sha256.hex(before[path]) }
      local result = first:call("run-" .. number, 5 + number, "fs_delete", params)
      expect({ result.ok, result.code }).to_be({ true })
      expect(machine.disk.nodes[path]).to_be(nil)
      if number > 1 then
        expect(#machine.disk.nodes[".cc-orchestrator/spare"]).to_be(2048)
      end
      machine.disk.capacity = machine.disk:used()
    end
    local write = { path = "d", if_hash = "absent" }
    local refused = first:call("run-9", 10, "fs_write", write, NEW)
    expect({ refused.code, refused.data.missing }).to_be({ "no_space_for_safe_write", 1000 })
    expect(#machine.disk.nodes[".cc-orchestrator/spare"]).to_be(2048)
  end)

  it("leaves old or new and the true outcome wherever the power goes in a delete on a full disk", function()
    local case = case_of("a delete of a file")
    local seen = {}
    for at = 1, LAST_CHANGE do
      local machine, first = full(case)
      machine.die_at(at)
      first:call("run-1", 6, case.method, params_of(case))
      local died = machine.disk.dead
      machine.revive()
      seen[check_after_reboot(case, machine, answered(first))] = true
      local hash = sha256.hex("another")
      local next_one = client.boot(machine):welcome(20)
      expect(#machine.disk.nodes[".cc-orchestrator/spare"]).to_be(2048)
      machine.disk.nodes.another = "another"
      machine.disk.capacity = machine.disk:used()
      expect(next_one:call("run-2", 21, "fs_delete", { path = "another", if_hash = hash }).ok).to_be(true)
      if not died then
        break
      end
      expect(at < LAST_CHANGE).to_be(true)
    end
    expect(seen).to_be({ void = true, not_done = true, done = true })
  end)

  it("needs room for the old and the new file, and says how much is missing", function()
    local machine, first = prepared(CASES[1])
    machine.disk.capacity = machine.disk:used() + 1700
    local big = ("x"):rep(5000)
    local result = first:call("run-1", 6, "fs_write", params_of(CASES[1]), big)
    expect(result.code).to_be("no_space_for_safe_write")
    -- The plan and the new bytes; the directory of swap files is there since the boot.
    expect(result.data.missing).to_be(500 + 5000 - 1700)
    -- The client's own files are not the player's to delete.
    expect(result.data.biggest).to_be("9 dir/file")
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
