--- Copy a file or directory; an existing target is refused.
local from, to = ...
if not to then
  print("Usage: copy <source> <destination>")
  return
end
local source, target = shell.resolve(from), shell.resolve(to)
if not fs.exists(source) then
  printError("No matching files")
elseif fs.exists(target) then
  printError("Destination exists")
else
  fs.copy(source, target)
end
