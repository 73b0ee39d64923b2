--- The shell: finds programs by alias and path, and runs them with `shell`, `arg` and `require`.
-- @module shell

local shell = {}

local directory, search_path, running = "", ".:/rom/programs", {}
local aliases = { ls = "list", dir = "list", rm = "delete", cp = "copy", mv = "move", cls = "clear" }

function shell.dir()
  return directory
end

function shell.setDir(path)
  if not fs.isDir(path) then
    error("Not a directory", 2)
  end
  directory = fs.combine(path, "")
end

function shell.path()
  return search_path
end

function shell.setPath(path)
  search_path = path
end

function shell.aliases()
  local copy = {}
  for name, program in pairs(aliases) do
    copy[name] = program
  end
  return copy
end

function shell.setAlias(name, program)
  aliases[name] = program
end

function shell.clearAlias(name)
  aliases[name] = nil
end

function shell.exit() end

function shell.getRunningProgram()
  return running[#running]
end

--- A path as typed, from the root.
function shell.resolve(path)
  if path:find("^[/\\]") then
    return fs.combine("", path)
  end
  return fs.combine(directory, path)
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

--- The path of the program that a word means, or nil.
function shell.resolveProgram(word)
  word = aliases[word] or word
  if word:find("[/\\]") then
    return with_extension(shell.resolve(word))
  end
  for place in search_path:gmatch("[^:]+") do
    local found = with_extension(fs.combine(shell.resolve(place), word))
    if found then
      return found
    end
  end
end

local function environment(path, arguments)
  local env = { shell = shell, arg = { [0] = path, table.unpack(arguments, 1, arguments.n) } }
  local make = dofile("rom/modules/main/cc/require.lua").make
  env.require, env.package = make(env, fs.getDir(path))
  return env
end

--- Runs a program with arguments; prints what goes wrong. True when it ended well.
function shell.execute(word, ...)
  local path = shell.resolveProgram(word)
  if not path then
    printError("No such program")
    return false
  end
  running[#running + 1] = path
  local ok = os.run(environment(path, table.pack(...)), path, ...)
  running[#running] = nil
  return ok
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

--- Runs a line as typed.
function shell.run(...)
  local words = split(table.concat({ ... }, " "))
  return #words > 0 and shell.execute(table.unpack(words))
end

--- Runs the first program of the computer.
function shell.start(path)
  local chunk, why = loadfile(path, nil, setmetatable(environment(path, table.pack()), { __index = _G }))
  if not chunk then
    return false, why
  end
  running[1] = path
  return pcall(chunk)
end

return shell
