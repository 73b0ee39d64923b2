--- Runs a line in a tab of its own, behind this one.
if not shell.openTab then
  printError("Requires multishell")
  return
end
shell.openTab(...)
