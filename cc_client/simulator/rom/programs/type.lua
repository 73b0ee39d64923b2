--- Says what is at a path.
local name = ...
if not name then
  print("Usage: type <path>")
  return
end
local path = shell.resolve(name)
if fs.isDir(path) then
  print("directory")
else
  print(fs.exists(path) and "file" or "No such path")
end
