local Calls = require("calls")
local computer = require("computer")
local disk = require("disk")
local json = require("json")
local Journal = require("journal")
local Link = require("link")
local Loop = require("loop")
local Route = require("route")
local slots = require("slots")
local spec = require("spec")
local update = require("update")
local describe, it, expect = spec.describe, spec.it, spec.expect

local URL = "ws://127.0.0.1:1/computer"

--- A link on a computer whose http only notes what was dialled.
local function linked(subprotocol)
  local machine = computer.new()
  local dialled = {}
  http = {
    websocketAsync = function(url, headers)
      dialled[#dialled + 1] = { url = url, headers = headers }
      return machine.refuse == nil, machine.refuse
    end,
  }
  local journal = Journal.open("boot")
  assert(journal:begin({}))
  local function log() end
  local calls = Calls.new(journal, Loop.new(log), log)
  local facts = { id = 7, host = "h", family = "computer", boot = "b", client = "0", capabilities = {} }
  local parts = { computer = facts, calls = calls, journal = journal, log = log, subprotocol = subprotocol }
  return Link.new(Route.new({ "--", URL, "secret" }, {}), parts), machine, dialled
end

local function socket()
  local handle = { sent = {} }
  function handle.send(bytes, binary)
    expect(binary).to_be(true)
    handle.sent[#handle.sent + 1] = json.decode((bytes:match("^[^\n]*")))
  end
  function handle.close()
    handle.closed = true
  end
  return handle
end

--- Lets time pass until the link dials again; how long that took, in ms.
local function wait_for_dial(link, machine, dialled)
  local before, started_ms = #dialled, machine.now_ms
  while #dialled == before do
    machine.now_ms = machine.now_ms + 50
    link:tick()
  end
  return machine.now_ms - started_ms
end

describe("link", function()
  it("dials at once, with the token, a nonce of its own and the name of the protocol", function()
    local link, _, dialled = linked("cc-orchestrator.v1")
    link:tick()
    expect(#dialled).to_be(1)
    expect(dialled[1].url:match("^(.*)%?n=%x+$")).to_be(URL)
    expect(dialled[1].headers).to_be({
      ["Authorization"] = "Bearer secret",
      ["Sec-WebSocket-Protocol"] = "cc-orchestrator.v1",
    })
    local old, _, dialled_by_old = linked(nil)
    old:tick()
    expect(dialled_by_old[1].headers).to_be({ ["Authorization"] = "Bearer secret" })
  end)

  it("says hello on the socket that it dialled, and on no other", function()
    local link, _, dialled = linked()
    link:tick()
    local handle, stray = socket(), socket()
    expect(link:event({ "websocket_success", URL .. "?n=0", stray })).to_be(false)
    expect(stray.closed).to_be(true)
    expect(link:event({ "websocket_success", "ws://elsewhere", socket() })).to_be(false)
    expect(link:event({ "websocket_success", dialled[1].url, handle })).to_be(true)
    expect(handle.sent[1].type).to_be("hello")
    expect(link:event({ "websocket_message", URL .. "?n=0", "x", true })).to_be(false)
  end)

  it("dials again for ever, after delays that double to 12 s at most", function()
    local link, machine, dialled = linked()
    link:tick()
    for round = 1, 40 do
      link:event({ "websocket_failure", dialled[#dialled].url, "Could not connect" })
      local waited_ms = wait_for_dial(link, machine, dialled)
      -- The clock of the spec moves with every look, so a little is added.
      expect(waited_ms <= math.min(12000, 1000 * 2 ^ (round - 1)) + 200).to_be(true)
    end
  end)

  it("begins with short delays again after a welcome, and long ones after a refusal", function()
    local link, machine, dialled = linked()
    link:tick()
    local url = dialled[1].url
    link:event({ "websocket_success", url, socket() })
    link:event({ "websocket_message", url, '{"type":"welcome","number":1,"computer":"a"}\n', true })
    link:event({ "websocket_closed", url })
    expect(wait_for_dial(link, machine, dialled) <= 1200).to_be(true)
    url = dialled[2].url
    expect(url == dialled[1].url).to_be(false)
    local handle = socket()
    link:event({ "websocket_success", url, handle })
    link:event({ "websocket_message", url, '{"type":"refused","code":"frozen","message":"m"}\n', true })
    expect(handle.closed).to_be(true)
    expect(wait_for_dial(link, machine, dialled) >= 11500).to_be(true)
  end)

  it("does not wait for ever for an event that was dropped", function()
    local link, machine, dialled = linked()
    link:tick()
    expect(wait_for_dial(link, machine, dialled) <= 40000).to_be(true)
  end)

  it("counts a start as a try of a new client only once its server is reached", function()
    local function tries()
      return slots.read().tries
    end
    local link, machine, dialled = linked()
    assert(disk.write(slots.path("a"), "x"))
    assert(slots.write({ slot = "a", state = "trial", tries = 1, hash = "ab", bad = {} }))
    update.start(nil, "a", URL)
    expect(tries()).to_be(1)
    link:tick()
    expect(tries()).to_be(0)
    link:event({ "websocket_failure", dialled[1].url, "Could not connect" })
    wait_for_dial(link, machine, dialled)
    expect(tries()).to_be(0)
    link:event({ "websocket_success", dialled[2].url, socket() })
    expect(tries()).to_be(1)
    link:event({ "websocket_closed", dialled[2].url })
    wait_for_dial(link, machine, dialled)
    expect(tries()).to_be(0)
    link:event({ "websocket_failure", dialled[3].url, "Invalid handshake response status: 404 Not Found" })
    expect(tries()).to_be(1)
  end)

  it(
    "dials again when the server tells it to, spread out, and goes on with its own delays after that",
    function()
      local link, machine, dialled = linked()
      link:tick()
      local shortest_ms, longest_ms = math.huge, 0
      for _ = 1, 12 do
        local said = "Invalid handshake response getStatus: 503 Many computers come at once, retry after 17 s"
        link:event({ "websocket_failure", dialled[#dialled].url, said })
        local waited_ms = wait_for_dial(link, machine, dialled)
        shortest_ms, longest_ms = math.min(shortest_ms, waited_ms), math.max(longest_ms, waited_ms)
      end
      expect(shortest_ms >= 15900 and longest_ms <= 18200).to_be(true)
      expect(longest_ms - shortest_ms > 300).to_be(true)
      link:event({ "websocket_failure", dialled[#dialled].url, "Could not connect" })
      expect(wait_for_dial(link, machine, dialled) <= 1200).to_be(true)
    end
  )

  it("tries again when it may not even dial", function()
    local link, machine, dialled = linked()
    machine.refuse = "Domain not permitted"
    link:tick()
    machine.refuse = nil
    wait_for_dial(link, machine, dialled)
    expect(#dialled).to_be(2)
  end)

  it("dials the cell that it is sent to at once, and says what keeps it from there", function()
    local link, machine, dialled = linked()
    local cell = "ws://127.0.0.1:2/computer"
    local function refuse(place)
      local url = dialled[#dialled].url
      link:event({ "websocket_success", url, socket() })
      local said = '{"type":"refused","code":"moved","message":"m","cell":{"name":"west","url":"'
        .. place
        .. '"}}\n'
      link:event({ "websocket_message", url, said, true })
    end
    link:tick()
    refuse(cell)
    expect(wait_for_dial(link, machine, dialled) <= 200).to_be(true)
    expect(dialled[2].url:match("^(.*)%?")).to_be(cell)
    local url = dialled[2].url
    link:event({ "websocket_success", url, socket() })
    link:event({ "websocket_message", url, '{"type":"welcome","number":1,"computer":"a"}\n', true })
    link:event({ "websocket_closed", url })
    wait_for_dial(link, machine, dialled)
    expect(dialled[3].url:match("^(.*)%?")).to_be(cell)
    refuse("ws://elsewhere/computer")
    expect(wait_for_dial(link, machine, dialled) >= 11500).to_be(true)
    expect(dialled[4].url:match("^(.*)%?")).to_be(cell)
  end)
end)
