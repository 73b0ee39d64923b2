--- Changes the shell's directory.
local name = ...
if not name then
  print("Usage: cd <path>")
  return
end
local path = shell.resolve(name)
if fs.isDir(path) then
  shell.setDir(path)
else
  printError("Not a directory")
end
