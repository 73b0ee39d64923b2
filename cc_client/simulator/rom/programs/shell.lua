--- The shell: runs the line in its arguments, or else the startup files (the first shell only) and what is typed.
local parent, tabs = shell, multishell
local own, is_over = dofile("rom/apis/shell.lua").make(parent, tabs)

if select("#", ...) > 0 then
  own.run(...)
  return
end

local home = term.current()

local function prompt()
  term.setTextColour(colors.yellow)
  write(own.dir() .. "> ")
  term.setTextColour(colors.white)
end

term.setTextColour(colors.yellow)
print(os.version())
term.setTextColour(colors.white)
if not parent then
  own.run("/rom/startup.lua")
end

local history = {}
while not is_over() do
  term.redirect(home)
  prompt()
  local line = read(nil, history, settings.get("shell.autocomplete") and own.complete or nil)
  if line:find("%S") and history[#history] ~= line then
    history[#history + 1] = line
  end
  own.run(line)
end
