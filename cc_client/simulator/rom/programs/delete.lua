--- Deletes files and directories.
local names = { ... }
if #names == 0 then
  print("Usage: delete <paths>")
  return
end
for _, name in ipairs(names) do
  local path = shell.resolve(name)
  if not fs.exists(path) then
    printError(name .. ": No matching files")
  else
    fs.delete(path)
  end
end
