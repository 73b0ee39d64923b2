--- Runs in the first shell: the player's startup files, those of a disk before those of the computer.

--- `startup` or else `startup.lua`, then each file of the directory `startup`; nil when there are none.
local function startups_in(directory)
  local base = "/" .. fs.combine(directory, "startup")
  local first = shell.resolveProgram(base)
  local found = first and { "/" .. first } or nil
  if fs.isDir(base) then
    found = found or {}
    for _, name in ipairs(fs.list(base)) do
      local path = "/" .. fs.combine(base, name)
      if not fs.isDir(path) then
        found[#found + 1] = path
      end
    end
  end
  return found
end

local startups
if settings.get("shell.allow_startup") then
  startups = startups_in("")
end
if settings.get("shell.allow_disk_startup") then
  for _, name in ipairs(peripheral.getNames()) do
    if peripheral.getType(name) == "drive" and peripheral.call(name, "hasData") then
      local found = startups_in(peripheral.call(name, "getMountPath"))
      if found then
        startups = found
        break
      end
    end
  end
end
for _, path in ipairs(startups or {}) do
  shell.run(path)
end
