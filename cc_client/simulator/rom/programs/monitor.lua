--- Runs a program on a monitor: `monitor NAME PROGRAM [ARGUMENTS]`.
local name, program = ...
if not name or not program then
  print("Usage: monitor <name> <program> <arguments>")
  return
elseif peripheral.getType(name) ~= "monitor" then
  print("No monitor named " .. name)
  return
end
local before = term.redirect(peripheral.wrap(name))
term.clear()
term.setCursorPos(1, 1)
local ok, why = pcall(shell.execute, select(2, ...))
term.redirect(before)
if not ok then
  printError(why)
end
