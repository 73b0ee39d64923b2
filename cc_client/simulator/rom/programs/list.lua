--- Lists a directory: directories first.
local path = shell.resolve(... or "")
if not fs.isDir(path) then
  printError("Not a directory")
  return
end
local directories, files = {}, {}
for _, name in ipairs(fs.list(path)) do
  if name:sub(1, 1) ~= "." then
    local list = fs.isDir(fs.combine(path, name)) and directories or files
    list[#list + 1] = name
  end
end
table.sort(directories)
table.sort(files)
textutils.tabulate(directories, files)
