--- Where the installer puts the file that starts the client with the computer, so that nothing of the
-- player's can keep it from starting and nothing of the player's is lost.
--
-- The game runs /startup, or /startup.lua where there is no such file, then each file of /startup/; one
-- that never returns keeps the later ones from starting. So ours comes first and runs the others after it:
--
-- | there is                    | ours is                          | the player's         |
-- | --------------------------- | -------------------------------- | -------------------- |
-- | neither file nor directory  | /startup                         | -                    |
-- | /startup.lua                | /startup                         | stays where it is    |
-- | the file /startup           | /startup                         | goes to /startup.lua |
-- | that and /startup.lua       | /startup                         | goes to /startup_own.lua |
-- | the directory /startup      | /startup/00-cc-orchestrator.lua  | stays where it is    |
-- | it and /startup.lua         | /startup.lua                     | goes to /startup_own.lua |
--
-- A disk with something to start takes the place of all that.
-- @module startups

local disk = require("disk")
local installed = require("installed")
local sha256 = require("sha256")

local startups = {}

local MARK = "-- cc-orchestrator: starts the client"
local FILE, LUA, DIRECTORY = "/startup", "/startup.lua", "/startup"
local IN_DIRECTORY = "/startup/00-cc-orchestrator.lua"

local TEXT = MARK
  .. [[, then what this computer started before. `cc uninstall` takes it away.
local boot = loadfile("/.cc-orchestrator/boot.lua", nil, _ENV)
  or loadfile("/.cc-orchestrator/boot.lua.new", nil, _ENV)
local own = %s
if boot then
  boot("--startup", "%s", own)
elseif own and fs.exists(own) then
  shell.run(own)
end
]]

local function begins_with(path, mark)
  local bytes = not fs.isDir(path) and disk.read(path)
  return bytes and bytes:sub(1, #mark) == mark
end

local function is_file(path)
  return fs.exists(path) and not fs.isDir(path)
end

--- A name for the player's program that nothing has yet.
local function free_name()
  local path, number = "/startup_own.lua", 1
  while fs.exists(path) do
    number = number + 1
    path = ("/startup_own_%d.lua"):format(number)
  end
  return path
end

--- `{path, own, move?}`: where ours comes, what it runs, and what is moved for it.
local function plan(record)
  for _, path in ipairs({ FILE, LUA, IN_DIRECTORY }) do
    local moved = installed.moved(record, path)
    local is_half = moved and not fs.exists(path) and fs.exists(moved)
    if begins_with(path, MARK) or is_half then
      return { path = path, own = moved or path == FILE and LUA or nil }
    end
  end
  if fs.isDir(DIRECTORY) and is_file(LUA) then
    local to = free_name()
    return { path = LUA, own = to, move = to }
  elseif fs.isDir(DIRECTORY) then
    return { path = IN_DIRECTORY }
  elseif is_file(FILE) then
    local to = fs.exists(LUA) and free_name() or LUA
    return { path = FILE, own = to, move = to }
  end
  return { path = FILE, own = LUA }
end

--- The disks that the game starts from instead of the computer.
-- @treturn table of `{drive, mount}`
function startups.on_disks()
  local list = {}
  if not peripheral or not settings.get("shell.allow_disk_startup") then
    return list
  end
  for _, name in ipairs(peripheral.getNames()) do
    local is_drive = peripheral.getType(name) == "drive"
    local mount = is_drive and peripheral.call(name, "hasData") and peripheral.call(name, "getMountPath")
    if mount and (fs.exists("/" .. mount .. "/startup") or is_file("/" .. mount .. "/startup.lua")) then
      list[#list + 1] = { drive = name, mount = mount }
    end
  end
  return list
end

--- Whether the file at our place is as an installer left it.
local function is_known(record, path, text)
  return disk.read(path) == text or installed.is_ours(record, path)
end

local function must(ok, why)
  if not ok then
    error(why, 0)
  end
end

--- Makes room at the place of ours and puts it there, the record first. Raises a sentence.
-- @treturn table `{path, own, move?, sentence?}`
function startups.put()
  local record = installed.read()
  local place = plan(record)
  local text = TEXT:format(place.own and ("%q"):format(place.own) or "nil", place.path)
  if begins_with(place.path, MARK) and not is_known(record, place.path, text) then
    place.sentence = place.path .. " was changed by hand and is left as it is."
    return place
  end
  installed.add(record, ("made %s %s"):format(place.path, sha256.hex(text)))
  if place.move then
    installed.add(record, ("moved %s %s"):format(place.path, place.move))
  end
  must(installed.write(record))
  if disk.read(place.path) == text then
    return place
  end
  local temporary = disk.OWN .. "/startup.new"
  must(disk.write(temporary, text))
  if place.move then
    must(disk.try(fs.move, place.path, place.move))
  elseif fs.exists(place.path) then
    must(disk.try(fs.delete, place.path))
  end
  must(disk.try(fs.move, temporary, place.path))
  return place
end

return startups
