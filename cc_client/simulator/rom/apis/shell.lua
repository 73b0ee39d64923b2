--- Makes the API `shell`: finds programs by alias and path, and runs them with `shell`, `arg` and `require`.
--
-- Each running `shell` program has its own, with the directory, path and aliases of the one it was
-- started in.
-- @module shell

local maker = {}

local ALIASES = {
  ls = "list",
  dir = "list",
  rm = "delete",
  cp = "copy",
  mv = "move",
  cls = "clear",
  sh = "shell",
}

local function copied(list)
  local copy = {}
  for name, value in pairs(list) do
    copy[name] = value
  end
  return copy
end

--- Splits a line at blanks, `"` keeping words together.
local function split(line)
  local words, quoted = {}, false
  for part in (line .. '"'):gmatch('(.-)"') do
    if quoted then
      words[#words + 1] = part
    else
      for word in part:gmatch("[^ \t]+") do
        words[#words + 1] = word
      end
    end
    quoted = not quoted
  end
  return words
end

local function is_program(path)
  return fs.exists(path) and not fs.isDir(path)
end

local function with_extension(path)
  if is_program(path) then
    return path
  elseif is_program(path .. ".lua") then
    return path .. ".lua"
  end
end

-- Directories, the path and aliases ---------------------------------------------------------------

local function add_places(self, shell)
  function shell.dir()
    return self.directory
  end
  function shell.setDir(path)
    if not fs.isDir(path) then
      error("Not a directory", 2)
    end
    self.directory = fs.combine(path, "")
  end
  function shell.path()
    return self.path
  end
  function shell.setPath(path)
    self.path = path
  end
  function shell.aliases()
    return copied(self.aliases)
  end
  function shell.setAlias(name, program)
    if type(name) ~= "string" or type(program) ~= "string" then
      error("bad argument (string expected)", 2)
    end
    self.aliases[name] = program
  end
  function shell.clearAlias(name)
    self.aliases[name] = nil
  end

  --- A path as typed, from the root.
  function shell.resolve(path)
    if path:find("^[/\\]") then
      return fs.combine("", path)
    end
    return fs.combine(self.directory, path)
  end

  --- The path of the program that a word means, or nil.
  function shell.resolveProgram(word)
    word = self.aliases[word] or word
    if word:find("[/\\]") then
      return (with_extension(shell.resolve(word)))
    end
    for place in self.path:gmatch("[^:]+") do
      local found = with_extension(fs.combine(shell.resolve(place), word))
      if found then
        return found
      end
    end
    return nil
  end
end

-- Completing --------------------------------------------------------------------------------------

local function add_completion(self, shell)
  function shell.setCompletionFunction(path, complete)
    self.completions[path] = { fnComplete = complete }
  end
  function shell.getCompletionInfo()
    return copied(self.completions)
  end

  --- The names of all programs on the path.
  function shell.programs()
    local names, seen = {}, {}
    for place in self.path:gmatch("[^:]+") do
      local directory = shell.resolve(place)
      for _, file in ipairs(fs.isDir(directory) and fs.list(directory) or {}) do
        local name = file:gsub("%.lua$", "")
        if is_program(fs.combine(directory, file)) and not seen[name] and name:sub(1, 1) ~= "." then
          seen[name] = true
          names[#names + 1] = name
        end
      end
    end
    table.sort(names)
    return names
  end

  function shell.completeProgram(start)
    local names, endings = shell.programs(), {}
    for name in pairs(self.aliases) do
      names[#names + 1] = name
    end
    for _, name in ipairs(names) do
      if #name > #start and name:sub(1, #start) == start then
        endings[#endings + 1] = name:sub(#start + 1)
      end
    end
    table.sort(endings)
    return endings
  end

  function shell.complete(line)
    local words = split(line)
    if line:find("%s$") then
      words[#words + 1] = ""
    end
    if #words <= 1 then
      return shell.completeProgram(words[1] or "")
    end
    local path = shell.resolveProgram(words[1])
    local info = self.completions[path or ""]
    if info then
      local before = { table.unpack(words, 1, #words - 1) }
      return info.fnComplete(shell, #words - 1, words[#words], before)
    end
  end
end

-- Running -----------------------------------------------------------------------------------------

local function environment(self, path, arguments)
  local env = { shell = self.shell, multishell = self.multishell }
  env.arg = { [0] = path, table.unpack(arguments, 1, arguments.n) }
  local make = dofile("rom/modules/main/cc/require.lua").make
  env.require, env.package = make(env, fs.getDir(path))
  return env
end

local function show_title(self)
  if self.multishell then
    local running = self.running[#self.running]
    local title = running and fs.getName(running):gsub("%.lua$", "") or "shell"
    self.multishell.setTitle(self.multishell.getCurrent(), title)
  end
end

local function add_running(self, shell)
  function shell.exit()
    self.is_over = true
  end
  function shell.getRunningProgram()
    return self.running[#self.running]
  end

  --- Runs a program with arguments; prints what goes wrong. True when it ended well.
  function shell.execute(word, ...)
    local path = shell.resolveProgram(word)
    if not path then
      printError("No such program")
      return false
    end
    self.running[#self.running + 1] = path
    show_title(self)
    local ok = os.run(environment(self, path, table.pack(...)), path, ...)
    self.running[#self.running] = nil
    show_title(self)
    return ok
  end

  --- Runs a line as typed.
  function shell.run(...)
    local words = split(table.concat({ ... }, " "))
    return #words > 0 and shell.execute(table.unpack(words))
  end
end

local function add_tabs(self, shell)
  --- Runs a line in a tab of its own; returns its number.
  function shell.openTab(...)
    local words = split(table.concat({ ... }, " "))
    local path = words[1] and shell.resolveProgram(words[1])
    if not words[1] then
      return
    elseif not path then
      return printError("No such program")
    end
    local first = path == "rom/programs/shell.lua" and 2 or 1
    local env = environment(self, "rom/programs/shell.lua", table.pack())
    local tab = self.multishell.launch(env, "rom/programs/shell.lua", table.unpack(words, first))
    self.multishell.setTitle(tab, (fs.getName(path):gsub("%.lua$", "")))
    return tab
  end
  function shell.switchTab(tab)
    self.multishell.setFocus(tab)
  end
end

--- A new shell.
-- @tparam[opt] table parent the shell that it is started in
-- @tparam[opt] table multishell where there are tabs
function maker.make(parent, multishell)
  local shell = {}
  local self = {
    shell = shell,
    multishell = multishell,
    directory = parent and parent.dir() or "",
    path = parent and parent.path() or ".:/rom/programs",
    aliases = parent and parent.aliases() or copied(ALIASES),
    completions = parent and parent.getCompletionInfo() or {},
    running = {},
  }
  if not parent then
    self.path = self.path .. (turtle and ":/rom/programs/turtle" or "")
    self.path = self.path .. (term.isColour() and ":/rom/programs/advanced" or "")
    self.path = self.path .. (http and ":/rom/programs/http" or "")
  end
  add_places(self, shell)
  add_completion(self, shell)
  add_running(self, shell)
  if multishell then
    add_tabs(self, shell)
  end

  --- Whether `shell.exit` was called. Not of the game.
  local function is_over()
    return self.is_over
  end

  --- Runs a program as the only one of the computer. Not of the game.
  function shell.start(path)
    local env = setmetatable(environment(self, path, table.pack()), { __index = _G })
    local chunk, why = loadfile(path, nil, env)
    if not chunk then
      return false, why
    end
    self.running[1] = path
    return pcall(chunk)
  end
  return shell, is_over
end

return maker
