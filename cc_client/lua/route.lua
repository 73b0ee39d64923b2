--- Which address is dialled: the one of the installation (home), or the cell where this computer is served.
--
-- A server names another cell in `refused`, and its own in `welcome`. The token goes only to an address of the same
-- host as home, of a host below it, or of one that the connection file lists; and never from wss to ws. What a cell
-- that welcomed us says is remembered in the connection file; while it does not answer, home is tried in between.
-- @module route

local disk = require("disk")

local Route = {}
Route.__index = Route

local CONNECTION = disk.OWN .. "/connection"
--- Cells that send this computer on, one after the other, before it waits as after any refusal.
local MAX_HOPS = 4
--- Failures at a remembered cell after which every other dial goes home.
local PATIENCE = 3

--- The connection file: a comment, the URL, the token, the name here and the key of updates, each on a line; an early
-- installer wrote no key. Then `hosts NAME NAME`, where a person allows more hosts, and `cell URL`, which this writes.
function Route.read()
  local text, why = disk.read(CONNECTION)
  -- The power went while it was replaced.
  text = text or disk.read(CONNECTION .. ".new")
  if not text then
    return nil, "Cannot read /" .. CONNECTION .. ": " .. why
  end
  local lines, named = {}, {}
  for line in text:gmatch("[^\r\n]+") do
    local key, value = line:match("^(%l+) (.+)$")
    if key == "hosts" or key == "cell" then
      named[key] = value
    else
      lines[#lines + 1] = line
    end
  end
  if not lines[2] or not lines[3] or not lines[2]:find("^wss?://") then
    return nil, "/" .. CONNECTION .. " must hold a comment, the URL and the token, each on a line."
  end
  return Route.new(lines, named)
end

--- @tparam table lines those of the connection file
-- @tparam table named `{hosts?, cell?}`
function Route.new(lines, named)
  local self = setmetatable({ lines = lines, hosts = named.hosts or "" }, Route)
  self.home, self.token, self.update_key = lines[2], lines[3], lines[5]
  self.hops, self.failed = 0, 0
  self.cell = named.cell and self:allows(named.cell) and named.cell or nil
  return self
end

--- Host and scheme of a channel's address; nil where it is none that a server of ours has.
local function parts(url)
  local scheme, host, port = url:match("^(wss?)://([%w.-]+)(:?%d*)/computer$")
  if not host then
    scheme, host, port = url:match("^(wss?)://(%[[%x:.]+%])(:?%d*)/computer$")
  end
  if host and (port == "" or port:find("^:%d+$")) then
    return host:lower(), scheme
  end
end

--- Whether the token may go there.
function Route:allows(url)
  local host, scheme = parts(url)
  local home, home_scheme = parts(self.home)
  if not host or not home or (home_scheme == "wss" and scheme ~= "wss") then
    return false
  elseif host == home then
    return true
  end
  -- A part of an address of numbers is no host above others.
  if home:find("%.%l") and host:sub(-#home - 1) == "." .. home then
    return true
  end
  for one in self.hosts:lower():gmatch("%S+") do
    if one == host then
      return true
    end
  end
  return false
end

--- The same token with the name of a cell: the name only shows the way, and the server's hash leaves it out.
local function renamed(token, name)
  local kind, secret = token:match("^(cc%l_)[%l%d-]+%.(.+)$")
  if not kind then
    kind, secret = token:match("^(cc%l_)(.+)$")
  end
  return kind and name:find("^[%l%d][%l%d-]*$") and kind .. name .. "." .. secret or token
end

--- What is dialled now: the URL and the token.
function Route:now()
  local away = self.failed >= PATIENCE and self.failed % 2 == 1
  return self.hop or (not away and self.cell) or self.home, self.token
end

--- A dial, or a session that was not welcomed, failed.
-- @tparam ?boolean unknown the server there does not know the token: home knows more
function Route:missed(unknown)
  self.hop = nil
  self.failed = unknown and math.max(PATIENCE, self.failed + 1) or self.failed + 1
end

--- A server says that this computer is served elsewhere. True, or nil and why it is not dialled.
function Route:follow(cell)
  if not self:allows(cell.url) then
    return nil,
      "The server names a cell at "
        .. cell.url:sub(1, 100)
        .. ", and this computer's token does not go there.",
      "If it is right, add a line `hosts NAME` with its host to /" .. CONNECTION .. "."
  elseif self.hops >= MAX_HOPS then
    self.hops = 0
    return nil, "The cells send this computer in a circle.", "Look at `cc-orchestrator cells list`."
  end
  self.hops, self.hop, self.token = self.hops + 1, cell.url, renamed(self.token, cell.name)
  return true
end

--- A server has welcomed this computer: where it is found from now on.
-- @tparam string url the one that was dialled
-- @tparam ?table cell the place that the server told
function Route:arrived(url, cell)
  local place = url
  if cell and self:allows(cell.url) then
    place, self.token = cell.url, renamed(self.token, cell.name)
  end
  self.hop, self.hops, self.failed = nil, 0, 0
  local remembered = place ~= self.home and place or nil
  if remembered ~= self.cell or self.token ~= self.lines[3] then
    self.cell, self.lines[3] = remembered, self.token
    self:keep()
  end
end

--- Writes the connection file; where that fails, home is asked again after the next start.
function Route:keep()
  local lines = { table.unpack(self.lines) }
  lines[#lines + 1] = self.hosts ~= "" and "hosts " .. self.hosts or nil
  lines[#lines + 1] = self.cell and "cell " .. self.cell or nil
  disk.replace(CONNECTION, table.concat(lines, "\n") .. "\n")
end

return Route
