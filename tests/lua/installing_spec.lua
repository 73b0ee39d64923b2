-- luacheck: globals OWN peripheral
local computer = require("computer")
local desktop = require("desktop")
local sha256 = require("sha256")
local slots = require("slots")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local install = require("install")
install.SERVER = "http://server"

--- More changes than any installation makes.
local LAST_CHANGE = 60
local FARM, DOOR = 'OWN[#OWN + 1] = "farm"\n', 'OWN[#OWN + 1] = "door"\n'

--- Disks before anything is installed: with what starts on them, and where ours comes.
local BEFORE = {
  { name = "an empty disk", nodes = {}, ours = "startup", own = {} },
  { name = "/startup.lua", nodes = { ["startup.lua"] = FARM }, ours = "startup", own = { "farm" } },
  { name = "the file /startup", nodes = { startup = FARM }, ours = "startup", own = { "farm" } },
  {
    name = "the file /startup and /startup.lua",
    nodes = { startup = FARM, ["startup.lua"] = DOOR, ["startup_own.lua"] = "taken" },
    ours = "startup",
    own = { "farm" },
  },
  {
    name = "a directory",
    nodes = { startup = true, ["startup/10_door"] = DOOR, ["startup/20_farm.lua"] = FARM },
    ours = "startup/00-cc-orchestrator.lua",
    own = { "door", "farm" },
  },
  {
    name = "a directory and /startup.lua",
    nodes = { ["startup"] = true, ["startup/10_door"] = DOOR, ["startup.lua"] = FARM },
    ours = "startup.lua",
    own = { "farm", "door" },
  },
  {
    name = "an empty directory",
    nodes = { startup = true },
    ours = "startup/00-cc-orchestrator.lua",
    own = {},
  },
}

--- A computer with such a disk, and a server with the client called `name`.
local function computer_with(case, name, options)
  local desk = desktop.new(options)
  OWN = {}
  for path, node in pairs(case.nodes) do
    desk.disk.nodes[path] = node
  end
  desk.serve = function(version)
    desk.served = desktop.client_text(version)
    install.CLIENT = { size = #desk.served, sha256 = sha256.hex(desk.served), version = version }
  end
  desk.serve(name)
  return desk
end

--- Types the line; true when it went through, else the sentence.
local function type_line(desk, ...)
  local ok, why = desk:drive(install.run, ...)
  return ok or why
end

local function uninstall(desk)
  shell.setAlias("cc", "/.cc-orchestrator/cc.lua")
  return desk:drive(function()
    return shell.execute("cc", "uninstall")
  end)
end

--- Boots; whether a client ran, and what of the player's.
local function starts(desk)
  OWN = {}
  assert(desk:boot())
  return #desk.clients > 0 and desk.clients[#desk.clients], OWN
end

local function contains(list, text)
  return table.concat(list, "\n"):find(text, 1, true) ~= nil
end

for _, tabs in ipairs({ true, false }) do
  local how = tabs and "with tabs" or "beside the shell"

  describe("the installer " .. how, function()
    for _, case in ipairs(BEFORE) do
      it("starts the client and what started before, and goes without a trace: " .. case.name, function()
        local desk = computer_with(case, "one", { tabs = tabs })
        local before = desk:tree()
        expect(type_line(desk, "CODE")).to_be(true)
        expect(desk.clients).to_be({ "one" })
        expect(desk.disk.nodes[case.ours]:find("^%-%- cc%-orchestrator: starts the client") ~= nil).to_be(
          true
        )
        local client, own = starts(desk)
        expect({ client, own }).to_be({ "one", case.own })
        expect(desk.off).to_be(true)
        expect(desk.aliases.cc).to_be("/.cc-orchestrator/cc.lua")
        uninstall(desk)
        expect(desk:tree()).to_be(before)
        expect(desk.aliases.cc).to_be(nil)
      end)
    end
  end)
end

describe("the installer's last sentences", function()
  --- What is on the screen when the player gets the prompt; a window that is laid empties it.
  local function seen(tabs, no_sockets)
    local desk = computer_with(BEFORE[3], "one", { tabs = tabs })
    desk.no_sockets = no_sockets
    window = {
      create = function()
        desk.printed = {}
        return {}
      end,
    }
    term = {
      current = function()
        return term
      end,
      getSize = function()
        return 51, 19
      end,
      redirect = function() end,
    }
    local at_prompt = desk.printed
    desk.in_shell = function()
      at_prompt = { table.unpack(desk.printed) }
      return true
    end
    expect(type_line(desk, "CODE")).to_be(true)
    window = nil
    return tabs and desk.printed or at_prompt
  end

  it("are there to be read at the prompt", function()
    for _, tabs in ipairs({ true, false }) do
      local printed = seen(tabs)
      expect(contains(printed, "This is computer farm of http://server")).to_be(true)
      expect(contains(printed, "Your /startup is now /startup.lua")).to_be(true)
      expect(contains(seen(tabs, "Could not connect"), "It cannot connect yet.")).to_be(true)
    end
  end)
end)

describe("uninstalling after any installation", function()
  --- Every disk that these choices make, and a label or none.
  local function each_disk(visit)
    for number = 0, 127 do
      local function is_set(bit)
        return math.floor(number / 2 ^ bit) % 2 == 1
      end
      local nodes = {}
      if is_set(0) then
        nodes.startup = is_set(1) and FARM or true
      elseif is_set(1) then
        nodes.startup, nodes["startup/10_door"], nodes["startup/sub"] = true, DOOR, true
      end
      nodes["startup.lua"] = is_set(2) and DOOR or nil
      nodes["startup_own.lua"] = is_set(3) and "-- mine" or nil
      nodes["cc.lua"] = is_set(4) and "-- a compiler" or nil
      nodes["startup.new"] = is_set(5) and "-- mine" or nil
      visit({ nodes = nodes }, is_set(6) and "a label" or nil)
    end
  end

  it("the disk and the label are what they were, also after another version and another code", function()
    local count = 0
    each_disk(function(case, label)
      local desk = computer_with(case, "one", { tabs = true })
      desk.label, desk.pairing.label = label, "farm"
      local before = desk:tree()
      expect(type_line(desk, "CODE")).to_be(true)
      expect((starts(desk))).to_be("one")
      desk.serve("two")
      expect(type_line(desk, "CODE")).to_be(true)
      expect((starts(desk))).to_be("two")
      uninstall(desk)
      expect(desk:tree()).to_be(before)
      count = count + 1
    end)
    expect(count).to_be(128)
  end)
end)

describe("a power cut", function()
  --- Whatever was left: the next boot runs a whole client, or the line can be typed again.
  local function survives(desk, case, names)
    local before_boot = starts(desk)
    expect(before_boot == false or names[before_boot] == true).to_be(true)
    local left = before_boot
    expect(type_line(desk, "CODE")).to_be(true)
    local client, own = starts(desk)
    expect({ names[client], own }).to_be({ true, case.own })
    return left
  end

  for place, case in ipairs(BEFORE) do
    it(
      "between any two changes of an installation costs nothing but typing the line again: " .. case.name,
      function()
        local finished = false
        for count = 1 + place % spec.step(8), LAST_CHANGE, spec.step(8) do
          local desk = computer_with(case, "one", { tabs = true })
          local before = desk:tree()
          desk.machine.die_at(count)
          finished = type_line(desk, "CODE") == true and not desk.disk.dead
          desk.machine.revive()
          if finished then
            break
          end
          survives(desk, case, { one = true })
          uninstall(desk)
          expect(desk:tree()).to_be(before)
        end
        expect(finished).to_be(true)
      end
    )

    it("between any two changes of installing again leaves a client that runs: " .. case.name, function()
      local finished = false
      for count = 1 + place % spec.step(8), LAST_CHANGE, spec.step(8) do
        local desk = computer_with(case, "one", { tabs = true })
        local before = desk:tree()
        expect(type_line(desk, "CODE")).to_be(true)
        desk.serve("two")
        desk.machine.die_at(count)
        finished = type_line(desk) == true and not desk.disk.dead
        desk.machine.revive()
        if finished then
          break
        end
        -- The old one or the new one: what runs is never without a whole client.
        expect(survives(desk, case, { one = true, two = true }) ~= false).to_be(true)
        uninstall(desk)
        expect(desk:tree()).to_be(before)
      end
      expect(finished).to_be(true)
    end)

    it("between any two changes of uninstalling loses nothing of the player's: " .. case.name, function()
      local finished = false
      for count = 1 + place % spec.step(8), LAST_CHANGE, spec.step(8) do
        local desk = computer_with(case, "one", { tabs = true })
        local before = desk:tree()
        expect(type_line(desk, "CODE")).to_be(true)
        desk.machine.die_at(count)
        uninstall(desk)
        finished = not desk.disk.dead
        desk.machine.revive()
        if finished then
          expect(desk:tree()).to_be(before)
          break
        end
        survives(desk, case, { one = true })
        uninstall(desk)
        expect(desk:tree()).to_be(before)
      end
      expect(finished).to_be(true)
    end)
  end
end)

describe("installing again", function()
  it("keeps the connection and the journal, and brings the server's client on trial", function()
    local desk = computer_with(BEFORE[1], "one", { tabs = true })
    type_line(desk, "CODE")
    desk.disk.nodes[".cc-orchestrator/journal.a"] = "numbers"
    local connection = desk.disk.nodes[".cc-orchestrator/connection"]
    desk.serve("two")
    expect(type_line(desk)).to_be(true)
    expect(desk.disk.nodes[".cc-orchestrator/connection"]).to_be(connection)
    expect(desk.disk.nodes[".cc-orchestrator/journal.a"]).to_be("numbers")
    expect(slots.read().state).to_be("trial")
    expect(desk.clients).to_be({ "one", "two" })
    local asked = #desk.asked
    expect(type_line(desk)).to_be(true)
    expect(#desk.asked).to_be(asked)
  end)

  it("keeps the key of updates that comes with the token, and only what is one", function()
    local desk = computer_with(BEFORE[1], "one", { tabs = true })
    local key = ("ab"):rep(32)
    for _, case in ipairs({ { key, "\nfarm\n" .. key .. "\n" }, { "", "\nfarm\n" }, { "a\nb", "\nfarm\n" } }) do
      desk.pairing.token, desk.pairing.update_key = "t" .. #case[1], case[1]
      type_line(desk, "CODE")
      local connection = desk.disk.nodes[".cc-orchestrator/connection"]
      expect(connection:sub(-#case[2])).to_be(case[2])
      type_line(desk)
      expect(desk.disk.nodes[".cc-orchestrator/connection"]).to_be(connection)
    end
  end)

  it("with a code for the same computer keeps the journal, and for another one does not", function()
    local desk = computer_with(BEFORE[1], "one", { tabs = true })
    type_line(desk, "CODE")
    expect(desk.paired_with.token).to_be(nil)
    local journal = ".cc-orchestrator/journal.a"
    desk.disk.nodes[journal] = "numbers"
    desk.pairing.token = "new"
    type_line(desk, "CODE")
    expect(desk.paired_with.token).to_be("t")
    expect(desk.disk.nodes[".cc-orchestrator/connection"]).to_contain("\nnew\nfarm\n")
    expect(desk.disk.nodes[journal]).to_be("numbers")
    desk.pairing.computer = "mine"
    type_line(desk, "CODE")
    expect(desk.disk.nodes[journal]).to_be(nil)
    install.SERVER = "http://elsewhere"
    type_line(desk, "CODE")
    install.SERVER = "http://server"
    expect(desk.paired_with.token).to_be(nil)
  end)

  it("goes on with the token that is there when the code is spent, and else says what to do", function()
    local desk = computer_with(BEFORE[1], "one", { tabs = true })
    desk.refused_with =
      { code = "code_used", message = "This pairing code was used already.", remedy = "Make a new one." }
    local before = desk:tree()
    expect(type_line(desk, "CODE")).to_contain("Make a new one with `cc-orchestrator pair`")
    expect(desk:tree()).to_be(before)
    desk.refused_with = nil
    type_line(desk, "CODE")
    local connection = desk.disk.nodes[".cc-orchestrator/connection"]
    desk.disk.nodes["startup"] = nil
    for _, code in ipairs({ "code_used", "code_expired" }) do
      desk.refused_with = { code = code, message = "No.", remedy = "Make a new one." }
      expect(type_line(desk, "CODE")).to_be(true)
      expect(contains(desk.printed, "The computer goes on with the token that it has.")).to_be(true)
      expect(desk.disk.nodes[".cc-orchestrator/connection"]).to_be(connection)
      expect((starts(desk))).to_be("one")
    end
    desk.refused_with.code = "code_unknown"
    expect(type_line(desk, "CODE")).to_contain("not known here")
  end)

  it("leaves a startup file of ours that was changed by hand", function()
    local desk = computer_with(BEFORE[1], "one", { tabs = true })
    type_line(desk, "CODE")
    desk.disk.nodes.startup = desk.disk.nodes.startup .. "-- mine\n"
    type_line(desk)
    expect(contains(desk.printed, "/startup was changed by hand")).to_be(true)
    expect(desk.disk.nodes.startup:sub(-8)).to_be("-- mine\n")
    uninstall(desk)
    expect(contains(desk.printed, "/startup was changed since, so it is left.")).to_be(true)
    expect(desk.disk.nodes[".cc-orchestrator"]).to_be(nil)
    expect(desk.disk.nodes.startup:sub(-8)).to_be("-- mine\n")
  end)
end)

describe("the installer", function()
  it("says which files fill the disk, and touches nothing", function()
    local nodes = { world = true, ["world/map"] = ("x"):rep(30000), big = ("y"):rep(20000), small = "z" }
    local desk = computer_with({ nodes = nodes }, "one", { capacity = 80000 })
    local before = desk:tree()
    local why = type_line(desk, "CODE")
    expect(why).to_contain("too full: delete files of ")
    expect(why).to_contain("The biggest are /world/map (30000 bytes), /big (20000 bytes), /small (1 bytes).")
    expect(desk:tree()).to_be(before)
    expect(#desk.asked).to_be(0)
  end)

  it("pauses while it hashes a client, so that a busy game does not end it", function()
    local desk, pauses = computer_with(BEFORE[1], "1"), 0
    desk.served = desk.served:gsub("\n", "\n" .. ("-"):rep(12 * sha256.SLICE_BYTES) .. "\n", 1)
    install.CLIENT = { size = #desk.served, sha256 = sha256.hex(desk.served), version = "1" }
    sleep = function()
      pauses = pauses + 1
    end
    expect(type_line(desk, "CODE")).to_be(true)
    expect(pauses >= 3).to_be(true)
  end)

  it("does not trust what is not the client that the server named", function()
    local desk = computer_with(BEFORE[1], "one")
    desk.served = desk.served:gsub("one", "two")
    expect(type_line(desk, "CODE")).to_contain("did not arrive whole")
    expect(desk.paired_with).to_be(nil)
    expect(desk:tree()).to_be({ [""] = true, label = false })
  end)

  it("dials before it says that all is well, and says what is not", function()
    local desk = computer_with(BEFORE[1], "one")
    type_line(desk, "CODE")
    expect(desk.dialled.url:match("^(.*)%?n=%d+$")).to_be("ws://server/computer")
    expect(desk.dialled.headers).to_be({ Authorization = "Bearer t" })
    expect(contains(desk.printed, "cannot connect")).to_be(false)
    desk = computer_with(BEFORE[1], "one")
    desk.no_sockets = "Invalid handshake response getStatus: 426 Upgrade Required"
    type_line(desk, "CODE")
    expect(
      contains(desk.printed, "It cannot connect yet. server, port 80, takes no WebSocket (it answers 426).")
    ).to_be(true)
    expect(desk.clients).to_be({ "one" })
  end)

  it("gives a label only where there is none, and takes only its own back", function()
    local desk = computer_with(BEFORE[1], "one")
    desk.pairing.label = "farm 3"
    type_line(desk, "CODE")
    expect(desk.label).to_be("farm 3")
    uninstall(desk)
    expect(desk.label).to_be(nil)
    desk.label = "mine"
    type_line(desk, "CODE")
    uninstall(desk)
    expect(desk.label).to_be("mine")
  end)

  it("gives no label that the game would not keep as it is, nor one that breaks its record", function()
    for _, label in ipairs({ "a\nb", "\195\169", ("x"):rep(33), "a\127" }) do
      local desk = computer_with(BEFORE[2], "one")
      local before = desk:tree()
      desk.pairing.label = label
      expect(type_line(desk, "CODE")).to_be(true)
      expect(desk.label).to_be(nil)
      expect(contains(desk.printed, "type `label set NAME`")).to_be(true)
      uninstall(desk)
      expect(desk:tree()).to_be(before)
    end
  end)

  it("warns of a disk that keeps the client from starting", function()
    local function said(allowed, nodes, devices)
      local desk = computer_with(BEFORE[1], "one")
      desk.settings["shell.allow_disk_startup"] = allowed
      for path, node in pairs(nodes) do
        desk.disk.nodes[path] = node
      end
      computer.peripherals(devices)
      expect(type_line(desk, "CODE")).to_be(true)
      return contains(desk.printed, "The disk in the drive left (/disk) has a startup file")
        and contains(desk.printed, "take the disk out, or type `set shell.allow_disk_startup false`.")
    end
    local function drive(has_data)
      return {
        left = {
          types = { "drive" },
          methods = {
            hasData = function()
              return has_data
            end,
            getMountPath = function()
              return has_data and "disk" or nil
            end,
          },
        },
        back = { types = { "modem" }, methods = {} },
      }
    end
    local file = { disk = true, ["disk/startup.lua"] = "" }
    expect(said(true, file, drive(true))).to_be(true)
    expect(said(true, { disk = true, ["disk/startup"] = "" }, drive(true))).to_be(true)
    expect(said(true, { disk = true, ["disk/startup"] = true }, drive(true))).to_be(true)
    expect(said(false, file, drive(true))).to_be(false)
    expect(said(true, { disk = true, ["disk/startup.txt"] = "" }, drive(true))).to_be(false)
    expect(said(true, {}, drive(false))).to_be(false)
    expect(said(true, file, {})).to_be(false)
    peripheral = nil
  end)

  it("takes no word from the player that means something already", function()
    local desk = computer_with({ nodes = { ["cc.lua"] = "-- a compiler" } }, "one", { tabs = true })
    type_line(desk, "CODE")
    expect(desk.aliases.cc).to_be(nil)
  end)

  it("keeps the token out of everything but the connection file", function()
    local desk = computer_with(BEFORE[2], "one", { tabs = true })
    desk.pairing.token = "s3cret"
    type_line(desk, "CODE")
    for path, node in pairs(desk.disk.nodes) do
      local has = type(node) == "string" and node:find("s3cret", 1, true) ~= nil
      expect(has).to_be(path == ".cc-orchestrator/connection")
    end
    expect(contains(desk.printed, "s3cret")).to_be(false)
    expect(desk.disk.nodes[".cc-orchestrator/connection"]:match("^[^\n]*")).to_contain("Keep it secret.")
  end)
end)

describe("an uninstall that is cut short", function()
  --- The file that the game runs first is for one change neither ours nor the player's.
  local function is_between(desk, case)
    local ours = case.ours == "startup" and "startup" or "startup.lua"
    return case.nodes["startup.lua"] and case.nodes[case.ours] and not desk.disk.nodes[ours]
  end

  for _, case in ipairs(BEFORE) do
    it("starts what the player has, and can be typed again by the word cc: " .. case.name, function()
      local finished, between = false, 0
      for count = 1, LAST_CHANGE do
        local desk = computer_with(case, "one", { tabs = true })
        local before = desk:tree()
        expect(type_line(desk, "CODE")).to_be(true)
        desk.disk.nodes[".cc-orchestrator/spare"] = "-"
        desk.machine.die_at(count)
        uninstall(desk)
        finished = not desk.disk.dead
        desk.machine.revive()
        if finished then
          expect(desk:tree()).to_be(before)
          break
        end
        if is_between(desk, case) then
          between = between + 1
        else
          local _, own = starts(desk)
          expect(own).to_be(case.own)
          local ours = desk.disk.nodes[case.ours]
          if type(ours) == "string" and ours:find("^%-%- cc%-orchestrator") then
            expect(desk.aliases.cc).to_be("/.cc-orchestrator/cc.lua")
          end
        end
        expect(desk.disk.nodes[".cc-orchestrator/cc.lua"] ~= nil).to_be(true)
        desk:drive(function()
          return shell.execute("/.cc-orchestrator/cc.lua", "uninstall")
        end)
        expect(desk:tree()).to_be(before)
      end
      expect({ finished, between <= 1 }).to_be({ true, true })
    end)
  end

  it("names the command that ends the token, and what to type when it is cut short", function()
    local desk = computer_with(BEFORE[1], "one", { tabs = true })
    type_line(desk, "CODE")
    uninstall(desk)
    expect(desk.printed[#desk.printed]).to_be("cc-orchestrator token revoke computer farm")
    expect(contains(desk.printed, "`/.cc-orchestrator/cc.lua uninstall`")).to_be(true)
  end)
end)

describe("uninstalling", function()
  it("leaves what a change with an unknown outcome moved aside, and says so", function()
    local desk = computer_with(BEFORE[1], "one")
    type_line(desk, "CODE")
    local swap = ".cc-orchestrator/swap"
    desk.disk.nodes[swap], desk.disk.nodes[swap .. "/c1.old"], desk.disk.nodes[swap .. "/c2.new"] =
      true, "old", "x"
    uninstall(desk)
    expect(desk:tree()).to_be({
      [""] = true,
      label = false,
      [".cc-orchestrator"] = true,
      [swap] = true,
      [swap .. "/c1.old"] = "old",
    })
    expect(contains(desk.printed, "/.cc-orchestrator/swap/c1.old is left")).to_be(true)
  end)

  it("moves the player's program back as it is now, unless something took its place", function()
    local desk = computer_with(BEFORE[3], "one")
    type_line(desk, "CODE")
    desk.disk.nodes["startup.lua"] = "edited"
    uninstall(desk)
    expect({ desk.disk.nodes.startup, desk.disk.nodes["startup.lua"] }).to_be({ "edited" })
    desk = computer_with(BEFORE[3], "one")
    type_line(desk, "CODE")
    desk.disk.nodes.startup = "another"
    uninstall(desk)
    expect({ desk.disk.nodes.startup, desk.disk.nodes["startup.lua"] }).to_be({ "another", FARM })
    expect(contains(desk.printed, "Your program is left at /startup.lua")).to_be(true)
  end)
end)

desktop.done()
