--- Shows, sets or clears aliases: `alias NAME [PROGRAM]`.
local name, program = ...
if name and program then
  shell.setAlias(name, program)
elseif name then
  shell.clearAlias(name)
else
  local list = {}
  for alias, meant in pairs(shell.aliases()) do
    list[#list + 1] = alias .. ":" .. meant
  end
  table.sort(list)
  textutils.tabulate(list)
end
