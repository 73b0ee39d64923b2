local desktop = require("desktop")
local Loop = require("loop")
local sha256 = require("sha256")
local slots = require("slots")
local spec = require("spec")
local status = require("status")
local update = require("update")
local describe, it, expect = spec.describe, spec.it, spec.expect

local OLD, NEW = desktop.client_text("one"), desktop.client_text("two")

--- A computer that runs its slot a, with a server that answers as `serve(url)` says.
local function updating(pointer, key)
  local desk = desktop.new()
  desk.disk.nodes[".cc-orchestrator"] = true
  desk.disk.nodes[".cc-orchestrator/client.a.lua"] = OLD
  assert(slots.write(pointer or { slot = "a", state = "good", tries = 0, hash = "-", bad = {} }))
  desk.urls = {}
  http.request = function(url, body, headers, binary)
    expect({ body, headers, binary }).to_be({ nil, nil, true })
    desk.urls[#desk.urls + 1] = url
    return true
  end
  desk.loop = Loop.new(function(text)
    error(text)
  end)
  update.start(desk.loop, "a", "ws://server:1/computer", key, "boot-1")
  return desk
end

--- Hands queued events to the jobs, then `event`.
local function feed(desk, event)
  local events = desk.machine.events
  while #events > 0 do
    desk.loop:event(table.remove(events, 1))
  end
  if event then
    desk.loop:event(event)
    feed(desk)
  end
end

local function offer(text, hash)
  return { version = "2", size = #text, sha256 = hash or sha256.hex(text) }
end

local function answer(desk, text)
  local handle = {
    readAll = function()
      return text
    end,
    close = function() end,
  }
  feed(desk, { "http_success", desk.urls[#desk.urls], handle })
end

--- Lets time pass until the jobs that wait for it have gone on.
local function later(desk, seconds)
  desk.machine.now_ms = desk.machine.now_ms + seconds * 1000
  desk.loop:tick()
  feed(desk)
end

describe("update", function()
  it("fetches another client, points at it on trial, and is ready", function()
    local desk = updating()
    update.welcomed(offer(NEW))
    feed(desk)
    expect(desk.urls[1]:match("^(.-)%?n=%x+$")).to_be("http://server:1/client.lua")
    feed(desk, { "http_success", "http://elsewhere", {} })
    expect(update.ready).to_be(false)
    answer(desk, NEW)
    expect(update.ready).to_be(true)
    local pointer = slots.read()
    expect({ pointer.slot, pointer.state, pointer.hash }).to_be({ "b", "trial", sha256.hex(NEW) })
    expect(slots.text("b")).to_be(NEW)
    expect(slots.text("a")).to_be(OLD)
    expect(status.get("update")).to_contain("Client 2 is here")
  end)

  it("takes only what is signed with its key, for this boot, and leaves what runs as it is", function()
    local key, other = ("ab"):rep(32), ("cd"):rep(32)
    local function signed(with, changes)
      local one = offer(NEW)
      local said = { "cc-orchestrator client", one.version, one.size, one.sha256, "boot-1" }
      for place, value in pairs(changes or {}) do
        said[place] = value
      end
      one.mac = with and sha256.hmac(with, table.concat(said, "\n"))
      return one
    end
    local forged = {
      signed(nil),
      signed(other),
      signed(key, { [2] = "1" }),
      signed(key, { [3] = 1 }),
      signed(key, { [4] = sha256.hex(OLD) }),
      signed(key, { [5] = "boot-0" }),
    }
    for _, wrong in ipairs(forged) do
      local desk = updating(nil, key)
      local before = desk:tree()
      update.welcomed(wrong)
      feed(desk)
      expect(#desk.urls).to_be(0)
      expect(status.get("update")).to_contain("Client 2 is not signed with the key of this computer")
      expect(update.by_hand()).to_contain("pair this computer again")
      feed(desk)
      later(desk, 4000)
      expect({ #desk.urls, update.ready }).to_be({ 0, false })
      expect(desk:tree()).to_be(before)
      update.welcomed(signed(key))
      feed(desk)
      answer(desk, NEW)
      expect(update.ready).to_be(true)
      expect(slots.text("b")).to_be(NEW)
    end
  end)

  it("says nothing of a client that it has, whoever offers it, and without a key takes what comes", function()
    local desk = updating(nil, ("ab"):rep(32))
    update.welcomed(offer(OLD))
    feed(desk)
    expect({ #desk.urls, status.get("update") }).to_be({ 0, nil })
    desk = updating()
    local unsigned = offer(NEW)
    unsigned.mac = ("0"):rep(64)
    update.welcomed(unsigned)
    feed(desk)
    answer(desk, NEW)
    expect(update.ready).to_be(true)
  end)

  it("leaves alone what is the same, and a server that says nothing", function()
    local desk = updating()
    update.welcomed(nil)
    update.welcomed(offer(OLD))
    feed(desk)
    expect(#desk.urls).to_be(0)
    expect(status.get("update")).to_be(nil)
  end)

  it("takes nothing that is torn or another's, and tries again later", function()
    local torn = NEW:sub(1, -2)
    for _, case in ipairs({
      { offer(NEW), torn },
      { offer(NEW), NEW:gsub("two", "owt") },
      { offer("a page"), "a page" },
      { offer(torn), torn },
    }) do
      local desk = updating()
      local before = desk:tree()
      update.welcomed(case[1])
      feed(desk)
      answer(desk, case[2])
      expect(desk:tree()).to_be(before)
      expect(update.ready).to_be(false)
      expect(status.get("update")).to_contain("could not be fetched")
      later(desk, 31)
      expect(#desk.urls).to_be(2)
    end
  end)

  it("tries again when there is no answer, and less and less often", function()
    local desk = updating()
    update.welcomed(offer(NEW))
    feed(desk)
    local waits = {}
    for round = 1, 12 do
      feed(desk, { "http_failure", desk.urls[round], "Could not connect" })
      local waited = 0
      while #desk.urls == round do
        waited = waited + 10
        later(desk, 10)
      end
      waits[round] = waited
    end
    expect({ waits[1], waits[2], waits[12] }).to_be({ 30, 60, 3600 })
    later(desk, 61)
    expect(status.get("update")).to_contain("no answer")
  end)

  it("tries again at once when the server is back, and takes what it hands out by then", function()
    local desk = updating()
    update.welcomed(offer(NEW))
    feed(desk)
    feed(desk, { "http_failure", desk.urls[1], "Could not connect" })
    update.welcomed(offer(NEW))
    later(desk, 6)
    expect(#desk.urls).to_be(2)
    feed(desk, { "http_failure", desk.urls[2], "Could not connect" })
    local newest = desktop.client_text("three")
    update.welcomed(offer(newest))
    later(desk, 6)
    answer(desk, newest)
    expect(update.ready).to_be(true)
    expect(slots.text("b")).to_be(newest)
  end)

  it("does not fetch again what did not run here, unless a person asks", function()
    local desk = updating({ slot = "a", state = "good", tries = 0, hash = "-", bad = { sha256.hex(NEW) } })
    update.welcomed(offer(NEW))
    feed(desk)
    expect(#desk.urls).to_be(0)
    expect(status.get("update")).to_contain("did not run here")
    update.welcomed(offer(NEW))
    feed(desk)
    expect(#desk.urls).to_be(0)
    expect(update.by_hand()).to_contain("The server hands out client 2.")
    feed(desk)
    answer(desk, NEW)
    expect(update.ready).to_be(true)
    expect(slots.read().bad).to_be({})
  end)

  it("confirms a client on trial at its first welcome", function()
    local desk = updating({ slot = "a", state = "trial", tries = 1, hash = "ab", bad = {} })
    update.welcomed(offer(OLD))
    feed(desk)
    expect({ slots.read().state, slots.read().tries }).to_be({ "good", 0 })
  end)

  it("counts a start off once, and on once", function()
    local desk = updating({ slot = "a", state = "trial", tries = 2, hash = "ab", bad = {} })
    update.dialled()
    update.dialled()
    expect({ slots.read().state, slots.read().tries }).to_be({ "trial", 1 })
    update.opened()
    update.opened()
    expect(slots.read().tries).to_be(2)
    update.start(desk.loop, "a", "ws://server:1/computer")
    update.opened()
    expect(slots.read().tries).to_be(2)
  end)

  it("leaves the count of another client alone", function()
    updating({ slot = "b", state = "trial", tries = 1, hash = "ab", bad = {} })
    update.dialled()
    expect(slots.read().tries).to_be(1)
    updating({ slot = "a", state = "good", tries = 0, hash = "-", bad = {} })
    update.dialled()
    expect(slots.read().state).to_be("good")
  end)

  it("never writes over the only other client while it is not confirmed", function()
    local desk = updating({ slot = "a", state = "trial", tries = 1, hash = "ab", bad = {} })
    desk.disk.nodes[".cc-orchestrator/client.b.lua"] = NEW
    desk.machine.die_at(1)
    update.welcomed(offer(desktop.client_text("three")))
    desk.machine.revive()
    feed(desk)
    expect(#desk.urls).to_be(0)
  end)

  it("says how much room is missing, and leaves what runs", function()
    local desk = updating()
    desk.disk.capacity = desk.disk:used() + 600
    local big = desktop.client_text(("x"):rep(2000))
    update.welcomed(offer(big))
    feed(desk)
    answer(desk, big)
    expect(status.get("update")).to_contain("the disk is full: delete files of ")
    expect(slots.read().slot).to_be("a")
  end)

  it("survives a power cut between any two of its changes", function()
    for count = 1, 20 do
      local desk = updating()
      desk.disk.nodes[".cc-orchestrator/boot.lua"] = desktop.BOOT
      desk.disk.nodes[".cc-orchestrator/client.b.lua"] = desktop.client_text("zero")
      desk.machine.die_at(count)
      update.welcomed(offer(NEW))
      feed(desk)
      answer(desk, NEW)
      local done = update.ready and not desk.disk.dead
      desk.machine.revive()
      desk.clients = {}
      desk:drive(assert(loadfile("/.cc-orchestrator/boot.lua")))
      expect(desk.clients[1] == "one" or desk.clients[1] == "two").to_be(true)
      if done then
        expect(desk.clients[1]).to_be("two")
        return
      end
    end
    error("it never came to its end")
  end)
end)

desktop.done()
