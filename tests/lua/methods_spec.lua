-- luacheck: globals multishell
local client = require("client")
local computer = require("computer")
local glob = require("glob")
local json = require("json")
local sha256 = require("sha256")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local calls = 0

local function welcomed(nodes)
  local machine = computer.new({ capacity = 4000000 })
  for path, node in pairs(nodes or {}) do
    machine.disk.nodes[path] = node
  end
  local here = client.boot(machine):welcome(5)
  local function ask(method, params, body)
    calls = calls + 1
    return here:call("r" .. calls, 5, method, params, body)
  end
  return ask, machine.disk.nodes, here, machine
end

local function listed(answer)
  local paths = {}
  for index, entry in ipairs(json.decode(answer.bytes)) do
    paths[index] = entry.path
  end
  return table.concat(paths, " ")
end

describe("fs_edit", function()
  local function edit(text, old, new)
    local ask, nodes = welcomed({ f = text })
    local params = { path = "f", if_hash = sha256.hex(text), old_size = #old }
    return ask("fs_edit", params, old .. new), nodes.f
  end

  it("replaces what occurs once, bytes being bytes", function()
    local answer, text = edit("a\0%d+\255z", "\0%d+\255", "\n")
    expect(text).to_be("a\nz")
    expect(answer.data).to_be({
      size = 3,
      sha256 = sha256.hex("a\nz"),
      before = sha256.hex("a\0%d+\255z"),
    })
    answer, text = edit("whole", "whole", "")
    expect(answer.data.size).to_be(0)
    expect(text).to_be("")
  end)

  it("refuses what occurs never, or more than once, places that overlap counted", function()
    local answer, text = edit("abc", "x", "y")
    expect(answer.code).to_be("no_match")
    expect(text).to_be("abc")
    answer, text = edit("aaa", "aa", "b")
    expect(answer.code).to_be("several_matches")
    expect(answer.data.count).to_be(2)
    expect(text).to_be("aaa")
  end)

  it("compares first, and needs a file and sound parameters", function()
    local ask, nodes = welcomed({ f = "abc", d = true })
    local hash = sha256.hex("abc")
    local stale = ask("fs_edit", { path = "f", if_hash = sha256.hex("x"), old_size = 1 }, "ab")
    expect(stale.code).to_be("stale")
    expect(stale.data.actual).to_be(hash)
    expect(ask("fs_edit", { path = "f", if_hash = hash, old_size = 3 }, "ab").code).to_be("bad_params")
    expect(ask("fs_edit", { path = "f", if_hash = hash, old_size = 0 }, "ab").code).to_be("bad_params")
    expect(ask("fs_edit", { path = "f", if_hash = hash, old_size = 1 }).code).to_be("bad_params")
    expect(ask("fs_edit", { path = "n", if_hash = "absent", old_size = 1 }, "ab").code).to_be("not_found")
    local empty = sha256.hex("")
    expect(ask("fs_edit", { path = "d", if_hash = empty, old_size = 1 }, "ab").code).to_be("is_directory")
    expect(nodes.f).to_be("abc")
  end)
end)

describe("fs_move", function()
  local HASH = sha256.hex("abc")

  local function code(params)
    local ask, nodes = welcomed({
      ["f"] = "abc",
      ["d"] = true,
      ["d/x"] = "abc",
      ["disk"] = true,
      ["rom"] = true,
    })
    params.if_hash, params.if_to = params.if_hash or HASH, params.if_to or "absent"
    local answer = ask("fs_move", params)
    expect(nodes.f).to_be("abc")
    expect(nodes["d/x"]).to_be("abc")
    return answer.code, answer
  end

  local TREE = sha256.hex("x\0file\0" .. HASH .. "\n")

  it("refuses what it must not move, and where it must not move it", function()
    expect(code({ path = "f", to = "d" })).to_be("exists")
    expect(code({ path = "f", to = "f" })).to_be("exists")
    expect(code({ path = "f", to = "d/x" })).to_be("exists")
    expect(code({ path = "f", to = "d/x/y" })).to_be("not_a_directory")
    expect(code({ path = "f", to = "rom/y" })).to_be("read_only")
    expect(code({ path = "f", to = "disk" })).to_be("access_denied")
    expect(code({ path = "f", to = "" })).to_be("access_denied")
    expect(code({ path = "f", to = "a:b" })).to_be("bad_path")
    expect(code({ path = "f", to = ".cc-orchestrator/x" })).to_be("access_denied")
    expect(code({ path = ".cc-orchestrator", to = "x" })).to_be("access_denied")
    expect(code({ path = "disk", to = "x" })).to_be("access_denied")
    expect(code({ path = "none", to = "x", if_hash = "absent" })).to_be("not_found")
    expect(code({ path = "f", to = "x", if_to = HASH })).to_be("bad_params")
    local stale, answer = code({ path = "d", to = "x" })
    expect(stale).to_be("stale")
    expect(answer.data.actual).to_be(TREE)
  end)

  it("refuses to move a directory into itself, in a sentence", function()
    local refused, answer = code({ path = "d", to = "d/e", if_hash = TREE })
    expect(refused).to_be("bad_params")
    expect(answer.message).to_be("A directory cannot be moved into itself.")
    expect(code({ path = "d", to = "D/e/f", if_hash = TREE })).to_be("bad_params")
    local ask, nodes = welcomed({ d = true })
    local params = { path = "d", to = "d2", if_hash = sha256.hex(""), if_to = "absent" }
    expect(ask("fs_move", params).ok).to_be(true)
    expect(nodes.d2).to_be(true)
  end)

  it("refuses a destination that was taken while it was prepared", function()
    local _, nodes, here = welcomed({ f = ("x"):rep(20000) })
    local params = { path = "f", to = "g", if_hash = sha256.hex(nodes.f), if_to = "absent" }
    here:send_call("late", 5, "fs_move", params)
    nodes.g = "somebody's"
    here:settle_down()
    expect(here:last("late").code).to_be("exists")
    expect(nodes.g).to_be("somebody's")
    expect(#nodes.f).to_be(20000)
  end)
end)

describe("fs_mkdir", function()
  it("makes a directory and those above it, where nothing is", function()
    local ask, nodes = welcomed({ f = "x" })
    local params = { path = "a/b", if_hash = "absent" }
    expect(ask("fs_mkdir", params).data).to_be({ before = "absent" })
    expect(nodes["a/b"]).to_be(true)
    expect(ask("fs_mkdir", params).code).to_be("exists")
    expect(ask("fs_mkdir", { path = "f", if_hash = "absent" }).code).to_be("exists")
    local refused = ask("fs_mkdir", { path = "f/g/h", if_hash = "absent" })
    expect({ refused.code, refused.data.file }).to_be({ "not_a_directory", "f" })
    expect(ask("fs_mkdir", { path = "rom/g", if_hash = "absent" }).code).to_be("read_only")
    expect(ask("fs_mkdir", { path = "g", if_hash = sha256.hex("") }).code).to_be("bad_params")
  end)
end)

describe("a change that replaces another kind", function()
  local EMPTY, FILE = sha256.hex(""), sha256.hex("abc")
  local TREE = sha256.hex("x\0file\0" .. FILE .. "\n")

  local function begun()
    return welcomed({
      ["f"] = "abc",
      ["e"] = "",
      ["d"] = true,
      ["d/x"] = "abc",
      ["empty"] = true,
      ["disk"] = true,
    })
  end

  it("puts a file in the place of a directory and all that is in it", function()
    local ask, nodes = begun()
    local written = ask("fs_write", { path = "d", if_hash = TREE, replaces = "directory" }, "new")
    expect({ written.data.before, written.data.size }).to_be({ TREE, 3 })
    expect({ nodes.d, nodes["d/x"] }).to_be({ "new" })
  end)

  it("puts a directory in the place of a file", function()
    local ask, nodes = begun()
    expect(ask("fs_mkdir", { path = "f", if_hash = FILE, replaces = "file" }).data).to_be({ before = FILE })
    expect(nodes.f).to_be(true)
  end)

  it("is done only to the kind that it names and to what was looked at", function()
    local ask, nodes = begun()
    local function code(method, path, hash, replaces)
      local body = method == "fs_write" and "new" or nil
      return ask(method, { path = path, if_hash = hash, replaces = replaces }, body).code
    end
    expect(code("fs_write", "d", TREE)).to_be("is_directory")
    expect(code("fs_write", "d", EMPTY, "directory")).to_be("stale")
    expect(code("fs_write", "d", TREE, "file")).to_be("bad_params")
    expect(code("fs_write", "d", TREE, "tree")).to_be("bad_params")
    expect(code("fs_write", "f", FILE, "directory")).to_be("stale")
    expect(code("fs_write", "disk", EMPTY, "directory")).to_be("access_denied")
    expect(code("fs_write", "n", "absent", "directory")).to_be("stale")
    expect(code("fs_mkdir", "f", FILE)).to_be("bad_params")
    expect(code("fs_mkdir", "f", TREE, "file")).to_be("stale")
    expect(code("fs_mkdir", "f", FILE, "directory")).to_be("bad_params")
    -- An empty file and an empty directory have one hash.
    expect(code("fs_mkdir", "empty", EMPTY, "file")).to_be("stale")
    expect(code("fs_write", "e", EMPTY, "directory")).to_be("stale")
    expect({ nodes.f, nodes["d/x"], nodes.e, nodes.empty }).to_be({ "abc", "abc", "", true })
  end)
end)

describe("fs_stat", function()
  it("gives the lines that the hash of a directory is taken over", function()
    local ask = welcomed({ ["d"] = true, ["d/b"] = true, ["d/b/c"] = "c", ["d/a"] = "a", ["f"] = "x" })
    local answer = ask("fs_stat", { path = "d" })
    expect(answer.bytes).to_be(
      ("a\0file\0%s\nb\0directory\0-\nb/c\0file\0%s\n"):format(sha256.hex("a"), sha256.hex("c"))
    )
    expect(answer.data.sha256).to_be(sha256.hex(answer.bytes))
    expect(ask("fs_stat", { path = "f" }).bytes).to_be(nil)
    expect(ask("fs_stat", { path = "none" }).data.kind).to_be("absent")
    -- The client's own files are nobody's business.
    expect(ask("fs_stat", { path = "" }).bytes:find("orchestrator", 1, true)).to_be(nil)
  end)
end)

describe("glob", function()
  local CASES = {
    { "*.lua", "a.lua", true },
    { "*.lua", "a/b.lua", false },
    { "*.lua", "a.LUA", false },
    { "*.lua", ".lua", true },
    { "**.lua", "a/b.lua", true },
    { "**/*.lua", "a.lua", true },
    { "**/*.lua", "a/b/c.lua", true },
    { "**/b/*.lua", "ab/c.lua", false },
    { "a/**", "a", true },
    { "a/**", "a/b/c", true },
    { "a/**", "ab", false },
    { "**", "a/b", true },
    { "a/**/b", "a/b", true },
    { "a/**/b", "a/x/y/b", true },
    { "?", "a", true },
    { "?", "/", false },
    { "a?c", "a/c", false },
    { "/a", "a", true },
    { "a.c", "abc", false },
    { "%a+[x]", "%a+[x]", true },
    { "*a*a*a*a*a*a*a*b", ("a"):rep(400), false },
  }

  it("matches names within and across", function()
    for _, case in ipairs(CASES) do
      local found = glob(case[1])(case[2])
      expect(case[1] .. " " .. case[2]:sub(1, 20) .. " " .. tostring(found)).to_be(
        case[1] .. " " .. case[2]:sub(1, 20) .. " " .. tostring(case[3])
      )
    end
  end)
end)

describe("fs_find", function()
  local NODES = {
    ["d"] = true,
    ["d/b.lua"] = "one\ntwo x\n\nfour x x\n",
    ["d/a"] = true,
    ["d/a/z.lua"] = "nothing",
    ["c.lua"] = "x",
    ["disk"] = true,
    ["disk/e.lua"] = "x",
  }

  it("finds by name, sorted by path bytes, without disks and the client's own files", function()
    local ask = welcomed(NODES)
    local answer = ask("fs_find", { path = "", pattern = "**.lua", max = 10 })
    expect(json.decode(answer.bytes)).to_be({
      { path = "c.lua", dir = false, size = 1 },
      { path = "d/a/z.lua", dir = false, size = 7 },
      { path = "d/b.lua", dir = false, size = 20 },
    })
    expect(answer.data).to_be({ count = 3, cut = false })
    expect(listed(ask("fs_find", { path = "d", pattern = "*", max = 10 }))).to_be("d/a d/b.lua")
    expect(listed(ask("fs_find", { path = "disk", pattern = "*", max = 10 }))).to_be("disk/e.lua")
    expect(listed(ask("fs_find", { path = "", pattern = "**/swap/**", max = 10 }))).to_be("")
  end)

  it("says how many there are when not all are told", function()
    local ask = welcomed(NODES)
    local answer = ask("fs_find", { path = "", pattern = "**.lua", max = 2 })
    expect(listed(answer)).to_be("c.lua d/a/z.lua")
    expect(answer.data).to_be({ count = 3, cut = true })
  end)

  it("finds files by what is in them, and tells the lines", function()
    local ask, nodes = welcomed(NODES)
    local answer = ask("fs_find", { path = "", pattern = "**", contains = "x", max = 10 })
    expect(answer.data.count).to_be(2)
    expect(json.decode(answer.bytes)[2].lines).to_be({
      { line = 2, text = "two x" },
      { line = 4, text = "four x x" },
    })
    nodes["c.lua"] = ("x\n"):rep(3000)
    answer = ask("fs_find", { path = "", pattern = "c.*", contains = "x\nx", max = 10 })
    expect(#json.decode(answer.bytes)[1].lines).to_be(5)
    nodes["c.lua"] = ("y\n"):rep(3000) .. ("z"):rep(500) .. "x" .. ("z"):rep(500)
    answer = ask("fs_find", { path = "", pattern = "c.*", contains = "x", max = 10 })
    local line = json.decode(answer.bytes)[1].lines[1]
    expect(line.line).to_be(3001)
    expect(#line.text).to_be(200)
    expect(line.text).to_contain("x")
  end)

  it("refuses nonsense", function()
    local ask, nodes = welcomed(NODES)
    expect(ask("fs_find", { path = "c.lua", pattern = "*", max = 1 }).code).to_be("not_a_directory")
    expect(ask("fs_find", { path = "none", pattern = "*", max = 1 }).code).to_be("not_found")
    expect(ask("fs_find", { path = "", pattern = "", max = 1 }).code).to_be("bad_params")
    expect(ask("fs_find", { path = "", pattern = "*", max = 0 }).code).to_be("bad_params")
    expect(ask("fs_find", { path = "", pattern = "*", max = 1001 }).code).to_be("bad_params")
    expect(ask("fs_find", { path = "", pattern = "*" }).code).to_be("bad_params")
    nodes.big = ("x"):rep(2097153)
    local answer = ask("fs_find", { path = "", pattern = "*", contains = "y", max = 9 })
    expect(answer.code).to_be("too_large")
    expect(answer.message).to_contain("big")
  end)

  spec.long("ends the list before it is over what a body carries", function()
    local nodes = {}
    local name = ("\255"):rep(240)
    for index = 1, 1000 do
      nodes[name .. index] = (name .. "\n"):rep(5)
    end
    local ask, _, here = welcomed(nodes)
    local answer = ask("fs_find", { path = "", pattern = "*", contains = "\255", max = 1000 })
    answer = here:whole_result(answer.call_id)
    expect(answer.data).to_be({ count = 1000, cut = true })
    expect(#answer.bytes <= 2097152).to_be(true)
    expect(#json.decode(answer.bytes) > 200).to_be(true)
  end)
end)

describe("fs_list", function()
  it("may be as long as a body in parts", function()
    local nodes = {}
    for index = 1, 2000 do
      nodes[("entry-with-a-name-of-some-length-%04d"):format(index)] = "x"
    end
    local ask, _, here = welcomed(nodes)
    local answer = here:whole_result(ask("fs_list", { path = "" }).call_id)
    expect(answer.data.count).to_be(2001)
    expect(json.decode(answer.bytes)[2000].size).to_be(1)
  end)
end)

describe("names that the game cannot reach", function()
  local AB = sha256.hex("the real one")

  --- As a host may have them: names that become others or nothing, one that is there as well, and a link to nothing.
  local function odd()
    local ask, nodes = welcomed({
      ["ab"] = "the real one",
      ["a:b"] = "another",
      [" trail "] = "x",
      ["what?.txt"] = "x",
      ["line\nend"] = "x",
      ["..."] = true,
      ["d"] = true,
      ["d/f"] = "f",
      ["d/c|d"] = true,
      ["d/c|d/below"] = "x",
      ["whole"] = true,
    })
    local list = fs.list
    fs.list = function(path)
      local names = list(path)
      names[#names + 1] = path == "" and "link" or nil
      return names
    end
    return ask, nodes
  end

  local NAMES = { " trail ", "...", "a:b" }

  it("are in no list and counted", function()
    local ask = odd()
    local answer = ask("fs_list", { path = "" })
    local names = {}
    for index, entry in ipairs(json.decode(answer.bytes)) do
      names[index] = entry.name
    end
    expect(names).to_be({ ".cc-orchestrator", "ab", "d", "whole" })
    expect(answer.data).to_be({
      count = 4,
      unreachable = 6,
      unreachable_names = table.concat(NAMES, "\n") .. "\nline?end\nlink\nwhat?.txt",
    })
    expect(ask("fs_list", { path = "whole" }).data).to_be({ count = 0 })
  end)

  it("are in no hash of a directory that is looked at, and not found", function()
    local ask = odd()
    local answer = ask("fs_stat", { path = "" })
    local f = "d/f\0file\0" .. sha256.hex("f") .. "\n"
    expect(answer.bytes).to_be("ab\0file\0" .. AB .. "\nd\0directory\0-\n" .. f .. "whole\0directory\0-\n")
    expect(answer.data.unreachable).to_be(7)
    expect(answer.data.unreachable_names).to_contain("d/c|d")
    expect(ask("fs_stat", { path = "whole" }).data.unreachable).to_be(nil)
    expect(ask("fs_stat", { path = "ab" }).data.sha256).to_be(AB)
    answer = ask("fs_find", { path = "", pattern = "**", contains = "real", max = 10 })
    expect(listed(answer)).to_be("ab")
    expect({ answer.data.count, answer.data.unreachable }).to_be({ 1, 7 })
  end)

  it("keep their directory from being deleted, moved and replaced", function()
    local ask, nodes = odd()
    local hash = ask("fs_stat", { path = "d" }).data.sha256
    local changes = {
      fs_delete = { path = "d", if_hash = hash },
      fs_move = { path = "d", if_hash = hash, to = "e", if_to = "absent" },
      fs_write = { path = "d", if_hash = hash, replaces = "directory" },
    }
    for method, params in pairs(changes) do
      local answer = ask(method, params, method == "fs_write" and "x" or nil)
      expect({ answer.code, answer.data }).to_be({ "unreachable", { name = "c|d" } })
    end
    expect({ nodes["d/f"], nodes["d/c|d/below"], nodes.e }).to_be({ "f", "x", nil })
    expect(ask("fs_delete", { path = "ab", if_hash = AB }).ok).to_be(true)
    expect(nodes["a:b"]).to_be("another")
  end)

  it("fit a header, however many and long they are", function()
    local nodes = {}
    for index = 1, 300 do
      nodes[("\255"):rep(200) .. ":" .. index] = "x"
    end
    local ask = welcomed(nodes)
    local data = ask("fs_stat", { path = "" }).data
    expect(data.unreachable).to_be(300)
    expect(data.unreachable_names).to_be("?" .. ("\255"):rep(78) .. ":1")
  end)
end)

describe("info", function()
  it("tells what the computer and its neighbours are", function()
    local ask, _, _, machine = welcomed()
    peripheral = {
      getNames = function()
        return { "top", "left" }
      end,
      getType = function(name)
        if name == "left" then
          return "modem", "peripheral_hub"
        end
      end,
      getMethods = function(name)
        return name == "left" and { "open", "close" } or nil
      end,
    }
    redstone = {
      getSides = function()
        return { "top", "back" }
      end,
      getAnalogInput = function(side)
        return side == "back" and 15 or 0
      end,
      getAnalogOutput = function()
        return 0
      end,
    }
    local answer = ask("info", {})
    expect(json.decode(answer.bytes)).to_be({
      { name = "left", types = { "modem", "peripheral_hub" }, methods = { "close", "open" } },
      { name = "top", types = {}, methods = {} },
      { side = "back", input = 15, output = 0 },
    })
    redstone = nil
    expect(answer.data.id).to_be(7)
    expect(answer.data.family).to_be("advanced")
    expect(answer.data.host).to_contain("ComputerCraft")
    expect(answer.data.selected).to_be(nil)
    expect(answer.data.capacity).to_be(4000000)
    expect(answer.data.free <= machine.disk.capacity).to_be(true)
    expect(answer.data.day).to_be(12)
    expect(answer.data.time).to_be(750)
    expect(answer.data.fuel).to_be(nil)
    peripheral = nil
    _G.turtle = {
      getFuelLevel = function()
        return "unlimited"
      end,
      getFuelLimit = function()
        return 20000
      end,
      getSelectedSlot = function()
        return 3
      end,
      getItemDetail = function(slot)
        return slot == 2 and { name = "minecraft:coal", count = 5 } or nil
      end,
    }
    os.getComputerLabel = function()
      return "digger"
    end
    fs.getFreeSpace = function()
      return "unlimited"
    end
    fs.getCapacity = nil
    answer = ask("info", {})
    _G.turtle = nil
    expect(json.decode(answer.bytes)).to_be({ { slot = 2, item = "minecraft:coal", count = 5 } })
    expect(answer.data.family).to_be("turtle")
    expect(answer.data.fuel_limit).to_be(20000)
    expect(answer.data.selected).to_be(3)
    expect(answer.data.fuel).to_be(-1)
    expect(answer.data.free).to_be(-1)
    expect(answer.data.capacity).to_be(-1)
    expect(answer.data.label).to_be("digger")
  end)
end)

describe("input", function()
  local SOURCE =
    "local line = '' for _ = 1, 2 do line = line .. select(2, os.pullEvent('char')) end term.write(line .. (...))"

  it("stands at the end of the body of a run", function()
    local ask, nodes = welcomed({ p = SOURCE })
    local params = { path = "p", if_hash = sha256.hex(nodes.p), timeout_s = 5, input_size = 4 }
    local answer = ask("run_program", params, '["a"]ok\n!')
    expect(answer.ok).to_be(true)
    expect(answer.bytes).to_be("oka")
    expect(answer.data.input_left).to_be(2)
    expect(ask("run_program", params, "[]").code).to_be("bad_params")
    params.input_size = 0
    expect(ask("run_program", params, "[]").code).to_be("bad_params")
  end)

  it("may come with a command line", function()
    local ask, nodes = welcomed({ p = SOURCE })
    shell = {
      setDir = function() end,
      resolveProgram = function()
        return "p"
      end,
    }
    local params = { path = "p", if_hash = sha256.hex(nodes.p), timeout_s = 5, input_size = 2 }
    expect(ask("shell", params, '["p","x"]ok').bytes).to_be("okx")
    shell = nil
  end)
end)

describe("terminate", function()
  local SLOW = "term.write('begun') os.pullEvent('never')"

  local function started(source)
    local ask, nodes, here, machine = welcomed({ p = source })
    local params = { path = "p", if_hash = sha256.hex(nodes.p), timeout_s = 1000 }
    ask("run_program", params, "[]")
    expect(here:count("result")).to_be(0)
    return ask, here, here:last_of("ack").call_id, machine
  end

  it("ends a running program, at once", function()
    local ask, here, id = started(SLOW)
    expect(ask("terminate", { run = id }).data.state).to_be("stopping")
    expect(here:last_of("output").bytes).to_be("begun")
    local result = here:last(id)
    expect(result.code).to_be("terminated")
    expect(result.data.ended).to_be("terminated")
    expect(result.bytes).to_contain("begunTerminated")
    expect(ask("terminate", { run = id }).data.state).to_be("not_running")
  end)

  it("leaves one that ignores it, within 0.8 s", function()
    local ask, here, id, machine = started("while true do os.pullEventRaw() end")
    ask("terminate", { run = id })
    local began_ms, looks = machine.now_ms, 0
    while here:last(id).type ~= "result" and looks < 100 do
      machine.now_ms, looks = machine.now_ms + 50, looks + 1
      here.loop:tick()
    end
    expect(here:last(id).data.ended).to_be("abandoned")
    expect(machine.now_ms - began_ms <= 900).to_be(true)
  end)

  it("ends one that is not begun yet", function()
    local _, nodes, here = welcomed({ p = ("-- a long program\n"):rep(5000) })
    local params = { path = "p", if_hash = sha256.hex(nodes.p), timeout_s = 1000 }
    here:send_call("slow", 5, "run_program", params, "[]")
    here:send_call("stop", 5, "terminate", { run = "slow" })
    here:settle_down()
    expect(here:last("stop").data.state).to_be("stopping")
    expect(here:last("slow").data.ended).to_be("terminated")
  end)

  it("says that nothing runs", function()
    local ask = welcomed()
    expect(ask("terminate", { run = "none" }).data.state).to_be("not_running")
    expect(ask("terminate", {}).code).to_be("bad_params")
  end)
end)

describe("screen", function()
  it("shows what a running program has drawn", function()
    local source = "term.setTextColour(2) term.setBackgroundColour(4) term.setCursorPos(3, 2) "
      .. "term.write('hi') term.setCursorBlink(true) os.pullEvent('go')"
    local ask, nodes, here = welcomed({ p = source })
    local params = { path = "p", if_hash = sha256.hex(nodes.p), timeout_s = 1000 }
    local id = ask("run_program", params, "[]").call_id
    local answer = ask("screen", { run = id })
    expect(answer.data).to_be({ width = 200, height = 50, x = 5, y = 2, blink = true })
    local rows = json.decode(answer.bytes)
    expect(#rows).to_be(2)
    expect(rows[2].text).to_be("  hi" .. (" "):rep(196))
    expect(rows[2].fg).to_be("0011" .. ("0"):rep(196))
    expect(rows[2].bg).to_be("ff22" .. ("f"):rep(196))
    os.queueEvent("go")
    here:settle_down()
    expect(ask("screen", { run = id }).code).to_be("not_running")
  end)

  it("shows what the last program left, and the monitors that it drew on", function()
    local ask, nodes = welcomed({ p = "term.write('bye') peripheral.call('top', 'write', 'sign')" })
    computer.peripherals({ top = computer.monitor(7, 2) })
    local params = { path = "p", if_hash = sha256.hex(nodes.p), timeout_s = 5 }
    local answer = ask("run_program", params, "[]")
    expect(answer.data.monitors).to_be("top")
    expect(answer.data.output).to_be(3)
    expect(answer.bytes).to_be("bye\n[on the monitor top:]\nsign")
    expect(json.decode(ask("screen", { of = "program" }).bytes)[1].text:sub(1, 5)).to_be("bye  ")
    answer = ask("screen", { of = "top" })
    expect(answer.data).to_be({ width = 7, height = 2, x = 5, y = 1, blink = false })
    expect(ask("screen", { of = "bottom" }).code).to_be("not_running")
    peripheral = nil
  end)

  it("shows the computer's own terminal through a window, and says when it cannot", function()
    local ask = welcomed()
    expect(ask("screen", {}).code).to_be("not_running")
    local screen = require("screen")
    window = dofile("cc_client/simulator/rom/apis/window.lua")
    screen.open()
    window = nil
    term.setCursorPos(2, 3)
    term.write("on the screen")
    local answer = ask("screen", {})
    screen.close()
    expect(answer.data).to_be({ width = 51, height = 19, x = 15, y = 3, blink = false })
    expect(json.decode(answer.bytes)[3].text).to_contain(" on the screen")
    expect(term.current()).to_be(term.native())
    expect(ask("screen", {}).code).to_be("not_running")
  end)

  it("does not take the client's own tab for what the player sees", function()
    local ask = welcomed()
    local screen = require("screen")
    window = dofile("cc_client/simulator/rom/apis/window.lua")
    multishell = {
      getCount = function()
        return 2
      end,
    }
    screen.open()
    window, multishell = nil, nil
    local answer = ask("screen", {})
    screen.close()
    expect(term.current()).to_be(term.native())
    expect(answer.code).to_be("not_running")
    expect(answer.message).to_contain("once it has been restarted")
  end)
end)

describe("the hashes of files", function()
  it("are remembered, and right when bytes of the same length take the place of others", function()
    local ask, nodes = welcomed({ d = true, ["d/f"] = "old", ["d/g"] = "same" })
    local first = ask("fs_stat", { path = "d" })
    expect(ask("fs_stat", { path = "d" }).data.sha256).to_be(first.data.sha256)
    nodes["d/f"] = "new"
    local second = ask("fs_stat", { path = "d" })
    expect(second.bytes).to_be((first.bytes:gsub(sha256.hex("old"), sha256.hex("new"))))
    expect(ask("fs_read", { path = "d/f" }).data.sha256).to_be(sha256.hex("new"))
    expect(ask("fs_stat", { path = "d/f" }).data.sha256).to_be(sha256.hex("new"))
  end)

  spec.long("are right for more bytes than are remembered", function()
    local nodes = { d = true }
    for index = 1, 3 do
      nodes["d/f" .. index] = tostring(index):rep(500000)
    end
    local ask = welcomed(nodes)
    local first = ask("fs_stat", { path = "d" })
    expect(ask("fs_stat", { path = "d" }).data.sha256).to_be(first.data.sha256)
    expect(ask("fs_stat", { path = "d/f1" }).data.sha256).to_be(sha256.hex(nodes["d/f1"]))
  end)
end)
