local computer = require("computer")
local disk = require("disk")
local Route = require("route")
local spec = require("spec")
local describe, it, expect = spec.describe, spec.it, spec.expect

local HOME, CELL = "wss://cc.example.org/computer", "wss://west.cc.example.org/computer"

local function at(home, hosts)
  return Route.new({ "--", home, "ccc_east.SECRET", "farm", "ab" }, { hosts = hosts })
end

--- A computer whose connection file has these lines.
local function installed(...)
  computer.new()
  assert(disk.write(disk.OWN .. "/connection", table.concat({ ... }, "\n") .. "\n"))
  return Route.read()
end

describe("route", function()
  it("takes the token to hosts of home, of those below it and of the list, and never out of TLS", function()
    local route = at(HOME, "other.example.net")
    expect(route:allows(CELL)).to_be(true)
    expect(route:allows("wss://CC.example.org:8443/computer")).to_be(true)
    expect(route:allows("wss://other.example.net/computer")).to_be(true)
    for _, url in ipairs({
      "ws://west.cc.example.org/computer",
      "wss://example.org/computer",
      "wss://notcc.example.org/computer",
      "wss://cc.example.org.evil.net/computer",
      "wss://evil.net/west.cc.example.org/computer",
      "wss://west.cc.example.org@evil.net/computer",
      "wss://evil.net?.cc.example.org/computer",
      "wss://evil.net#.cc.example.org/computer",
      "wss://west.cc.example.org:80x/computer",
      "wss://west.cc.example.org/else",
      "https://west.cc.example.org/computer",
    }) do
      expect(route:allows(url)).to_be(false)
    end
    expect(at("ws://10.0.0.5:8765/computer"):allows("wss://10.0.0.5:1/computer")).to_be(true)
    expect(at("ws://10.0.0.5:8765/computer"):allows("ws://1.10.0.0.5/computer")).to_be(false)
    expect(at("ws://[::1]:8765/computer"):allows("ws://[::1]:1/computer")).to_be(true)
  end)

  it("names the cell in the token, and remembers it once it is welcome there", function()
    local route = installed("-- c", HOME, "ccc_SECRET_a.b", "farm", "ab")
    expect(route:follow({ name = "west", url = CELL })).to_be(true)
    expect({ route:now() }).to_be({ CELL, "ccc_west.SECRET_a.b" })
    expect(Route.read().cell).to_be(nil)
    route:arrived(CELL, nil)
    local again = Route.read()
    expect({ again:now() }).to_be({ CELL, "ccc_west.SECRET_a.b" })
    expect(again.update_key).to_be("ab")
    again:follow({ name = "east", url = HOME })
    again:arrived(HOME, nil)
    expect({ Route.read():now() }).to_be({ HOME, "ccc_east.SECRET_a.b" })
  end)

  it("forgets a cell where home leads another way, and keeps the hosts of the list", function()
    local route = installed("-- c", HOME, "ccc_east.S", "farm", "ab", "hosts other.net", "cell " .. CELL)
    expect((route:now())).to_be(CELL)
    route:arrived(CELL, { name = "north", url = "wss://other.net/computer" })
    expect({ Route.read():now() }).to_be({ "wss://other.net/computer", "ccc_north.S" })
    expect(Route.read().hosts).to_be("other.net")
    -- Whatever wrote it there: the rule is the same.
    local forged = installed("-- c", HOME, "ccc_east.S", "farm", "ab", "cell wss://evil.net/computer")
    expect((forged:now())).to_be(HOME)
  end)

  it(
    "asks home in between where the remembered cell does not answer, and at once where that knows no token",
    function()
      local route = installed("-- c", HOME, "ccc_east.S", "farm", "ab", "cell " .. CELL)
      local dialled = {}
      for _ = 1, 6 do
        dialled[#dialled + 1] = (route:now()) == HOME
        route:missed()
      end
      expect(dialled).to_be({ false, false, false, true, false, true })
      route:arrived(CELL, nil)
      route:missed(true)
      expect((route:now())).to_be(HOME)
    end
  )

  it("is sent on four times, and then waits", function()
    local route = at(HOME)
    for _ = 1, 4 do
      expect(route:follow({ name = "west", url = CELL })).to_be(true)
    end
    local follows, what = route:follow({ name = "west", url = CELL })
    expect(follows).to_be(nil)
    expect(what:find("circle", 1, true) ~= nil).to_be(true)
    expect(route:follow({ name = "west", url = CELL })).to_be(true)
  end)

  it("says what is missing from its file", function()
    computer.new()
    local route, why = Route.read()
    expect(route).to_be(nil)
    expect(why:find("Cannot read", 1, true) ~= nil).to_be(true)
    route, why = installed("-- c", "not an address", "t")
    expect(route).to_be(nil)
    expect(why:find("each on a line", 1, true) ~= nil).to_be(true)
  end)
end)
