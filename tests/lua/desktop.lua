--- A computer with a player's shell for the specs of what is installed: startup files, tabs, a server.
--
-- Programs on the disk are run from there, as the bundles that computers get. `boot()` does what the
-- game does when a computer starts. A client is a text that notes that it ran, see `client_text`.
-- @module desktop
-- luacheck: globals multishell CLIENT, ignore 212/self

local computer = require("computer")
local json = require("json")

local desktop = {}
desktop.__index = desktop

local stock_loadfile = loadfile
local stock_print = print

local function built(name)
  local file = assert(io.open("cc_client/" .. name, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

desktop.BOOT, desktop.CC = built("boot.lua"), built("cc.lua")
package.preload.installer_programs = function()
  return { boot = desktop.BOOT, cc = desktop.CC }
end

--- A whole client that notes its name and returns, or does, what the spec wants.
function desktop.client_text(name)
  local text =
    '-- The cc-orchestrator client %s\nlocal function require()\nreturn{run=function(...)return CLIENT("%s",...)end}\n'
  return text:format(name, name) .. 'end\nreturn require("main").run(...)\n'
end

local function canonical(path)
  return (path:gsub("^/+", ""))
end

local function make_shell(self)
  local aliases = {}
  multishell = nil
  if self.tabs then
    local function nothing() end
    multishell = { setTitle = nothing, getCurrent = nothing, setFocus = nothing }
    multishell.getCount = function()
      return self.tab_count
    end
  end
  shell = {
    run = function(line, ...)
      return shell.execute(line, ...)
    end,
    execute = function(path, ...)
      path = aliases[path] or path
      self.ran[#self.ran + 1] = path
      if path == "shell" then
        return self.in_shell()
      end
      local chunk = loadfile(path)
      if not chunk then
        return false
      end
      local ok, why = pcall(chunk, ...)
      if not ok then
        self.printed[#self.printed + 1] = tostring(why)
      end
      return ok
    end,
    resolveProgram = function(word)
      return aliases[word] or self.disk.nodes[word .. ".lua"] and word .. ".lua" or nil
    end,
    setAlias = function(word, path)
      aliases[word] = path
    end,
    clearAlias = function(word)
      aliases[word] = nil
    end,
    openTab = self.tabs and function(path)
      assert(loadfile(path))()
      return 2
    end,
  }
  self.aliases = aliases
end

local function response(text)
  return {
    readAll = function()
      return text
    end,
    close = function() end,
  }
end

local function make_http(self)
  http = {
    websocketAsync = function() end,
    websocket = function(url, headers)
      self.dialled = { url = url, headers = headers }
      if self.no_sockets then
        return false, self.no_sockets
      end
      return { close = function() end }
    end,
    get = function(url)
      if self.offline then
        return nil, "Could not connect"
      end
      self.asked[#self.asked + 1] = url
      return response(self.served)
    end,
    post = function(url, body)
      self.asked[#self.asked + 1] = url
      self.paired_with = json.decode(body)
      if self.refused_with then
        return nil, "Conflict", response(json.encode({ error = self.refused_with }))
      end
      return response(json.encode(self.pairing))
    end,
  }
end

--- @tparam ?table options `{tabs, capacity}`
function desktop.new(options)
  options = options or {}
  loadfile = stock_loadfile
  local self =
    setmetatable({ tabs = options.tabs, tab_count = 1, printed = {}, ran = {}, asked = {} }, desktop)
  self.machine = computer.new(options)
  self.disk = self.machine.disk
  self.pairing = { token = "t", url = "ws://server/computer", computer = "farm", label = "" }
  self.settings = {}
  self.in_shell = function()
    return true
  end
  loadfile = function(path, _, env)
    local bytes = self.disk.nodes[canonical(path)]
    if type(bytes) ~= "string" then
      return nil, "No such file"
    end
    return load(bytes, "@" .. path, "t", env or _G)
  end
  print = function(text)
    self.printed[#self.printed + 1] = tostring(text)
  end
  printError, window = print, nil
  textutils = { serializeJSON = json.encode, unserializeJSON = json.decode }
  settings = {
    get = function(name)
      return self.settings[name]
    end,
  }
  parallel = {
    waitForAny = function(...)
      -- The first branches go as far as they get; the last one decides.
      local branches = { ... }
      for index = 1, #branches - 1 do
        local co = coroutine.create(branches[index])
        assert(coroutine.resume(co))
      end
      branches[#branches]()
    end,
  }
  os.getComputerLabel = function()
    if self.label then
      return self.label
    end
  end
  os.setComputerLabel = function(label)
    self.label = label
  end
  sleep = function() end
  os.shutdown = function()
    self.off = true
  end
  os.reboot = function()
    self.rebooted = true
  end
  _G.cc_orchestrator = nil
  self.clients = {}
  CLIENT = function(name, ...)
    self.clients[#self.clients + 1] = name
    return self:behave(name, ...)
  end
  make_shell(self)
  make_http(self)
  return self
end

--- What a client does and returns; a spec may put another in its place.
function desktop.behave()
  return "stopped"
end

--- Runs something that waits for events; only its timers come.
function desktop:drive(body, ...)
  local co = coroutine.create(body)
  local results = table.pack(coroutine.resume(co, ...))
  local rounds = 0
  while coroutine.status(co) ~= "dead" do
    rounds = rounds + 1
    assert(rounds < 1000, "it waits for ever")
    -- Timers are numbered; whoever waits for one takes it as it comes.
    results = table.pack(coroutine.resume(co, "timer", rounds))
  end
  return table.unpack(results, 1, results.n)
end

--- What the game does when the computer starts, up to the prompt.
function desktop:boot()
  make_shell(self)
  self.ran, self.clients, self.printed, self.off, self.machine.events = {}, {}, {}, nil, {}
  local nodes = self.disk.nodes
  return self:drive(function()
    if type(nodes["startup"]) == "string" then
      shell.run("/startup")
    elseif type(nodes["startup.lua"]) == "string" then
      shell.run("/startup.lua")
    end
    local names = nodes["startup"] == true and not self.off and fs.list("/startup") or {}
    for _, name in ipairs(names) do
      if type(nodes["startup/" .. name]) == "string" and not self.off then
        shell.run("/startup/" .. name)
      end
    end
  end)
end

--- Everything on the disk and the label.
function desktop:tree()
  local tree = { label = self.label or false }
  for path, node in pairs(self.disk.nodes) do
    tree[path] = node
  end
  return tree
end

--- Puts the globals back that other specs use.
function desktop.done()
  loadfile, print = stock_loadfile, stock_print
  shell, multishell, CLIENT = nil, nil, nil
  os.shutdown, os.reboot, sleep = nil, nil, nil
end

return desktop
