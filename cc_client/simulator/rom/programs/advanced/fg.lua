--- Runs a line in a tab of its own, in front.
if not shell.openTab then
  printError("Requires multishell")
  return
end
local tab = shell.openTab(select("#", ...) > 0 and table.concat({ ... }, " ") or "shell")
if tab then
  shell.switchTab(tab)
end
