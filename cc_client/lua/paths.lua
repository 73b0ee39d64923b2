--- Canonical paths, and which of them are the client's own.
--
-- ComputerCraft silently drops characters and parts of a path, so `a:b` means `ab`. A call names
-- the path that a person approved; a path that would become another one is refused.
-- @module paths

local disk = require("disk")

local paths = {}

-- Not as methods of texts: `ours` asks in the turn of a program, which may have changed those.
local find, gmatch, gsub, lower, match, sub =
  string.find, string.gmatch, string.gsub, string.lower, string.match, string.sub

paths.MAX_BYTES = 500
local MAX_PART_BYTES = 255
local MAX_SHOWN_BYTES = 80

local function trim(text)
  return (gsub(gsub(text, "^%s+", ""), "%s+$", ""))
end

--- What ComputerCraft makes of a path (FileSystem.sanitizePath).
function paths.canonical(path)
  local parts = {}
  local cleaned = gsub(gsub(path, "\\", "/"), '[\0-\31"*:<>?|]', "")
  for part in gmatch(cleaned, "[^/]+") do
    part = trim(part)
    if part == ".." and #parts > 0 and parts[#parts] ~= ".." then
      parts[#parts] = nil
    elseif part ~= "" and part ~= "." and not find(part, "^%.%.%.+$") then
      parts[#parts + 1] = #part >= MAX_PART_BYTES and trim(sub(part, 1, MAX_PART_BYTES)) or part
    end
  end
  return table.concat(parts, "/")
end

--- What the game that runs here makes of a path.
local function cleaned(path)
  local becomes = paths.canonical(path)
  local ok, combined = disk.try(fs.combine, "", path)
  if becomes == path and ok then
    -- Where this version of the game cleans more than we know of, it has the last word.
    return combined
  end
  return becomes
end

--- Whether a name that `fs.list` gives leads to what it is the name of: one that came from the host may become another
-- name, or be a link to nothing.
function paths.is_reachable(directory, name)
  return cleaned(name) == name and fs.exists(paths.join(directory, name))
end

--- A path as one line that a header has room for: what is no path to the game may be anything.
function paths.shown(path)
  local line = path:gsub("[%c]", "?")
  -- No path has the mark: what is cut must not be taken for another one.
  return #line <= MAX_SHOWN_BYTES and line or "?" .. line:sub(-MAX_SHOWN_BYTES)
end

--- True for a canonical path; else false, a sentence and what the path would become.
function paths.check(path)
  if #path > paths.MAX_BYTES then
    return false, "The path has " .. #path .. " bytes, over " .. paths.MAX_BYTES .. "."
  end
  local becomes = cleaned(path)
  if becomes ~= path then
    return false, "ComputerCraft would make another path of this one.", becomes
  elseif path == ".." or path:sub(1, 3) == "../" then
    return false, "The path leads out of the computer."
  end
  return true
end

--- Whether one part of a path names the client's own directory, on any host's file system:
-- case, trailing dots and the short names of Windows all lead to it.
local function is_own(part)
  local plain = gsub(lower(part), "[%. ]+$", "")
  return plain == disk.OWN or find(plain, "^%.?cc%-or%w*~%d+") ~= nil
end

--- Whether a canonical path is the client's own directory or below it, on any mount.
function paths.is_protected(path)
  local first, second = match(path, "^([^/]*)/?([^/]*)")
  return is_own(first) or is_own(second)
end

--- Whether a canonical path is the root of a mount, such as `` or `disk`.
function paths.is_mount(path)
  return path == "" or not path:find("/", 1, true) and paths.mount(path) == path
end

--- The root of the mount that a canonical path is on: `` for the computer's own disk.
function paths.mount(path)
  local first = path:match("^[^/]+")
  if not first then
    return ""
  end
  local own, here = disk.try(fs.getDrive, "")
  local found, there = disk.try(fs.getDrive, first)
  if own and found and there ~= nil and there ~= here then
    return first
  end
  return ""
end

--- The directory of a canonical path, `` at the root.
function paths.parent(path)
  return path:match("^(.*)/[^/]*$") or ""
end

--- Joins canonical parts; an empty one is left out.
function paths.join(left, right)
  return left == "" and right or left .. "/" .. right
end

return paths
