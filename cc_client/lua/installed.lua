--- What the installer made and moved outside its own directory, written before it does, and how to undo it.
--
-- A line for each: `made PATH SHA256` (ours, in any of the forms that it had), `moved FROM TO` (the
-- player's, which ours stands in for), `label TEXT`. Undoing looks at what is there: what the player
-- has changed since is said, not touched.
-- @module installed

local disk = require("disk")
local sha256 = require("sha256")

local installed = {}

local RECORD = disk.OWN .. "/installed"
local HEAD, TAIL = "cc-orchestrator installed 1\n", "end\n"

--- Adds a line unless it is there.
function installed.add(record, line)
  for _, old in ipairs(record) do
    if old == line then
      return
    end
  end
  record[#record + 1] = line
end

local function parse(text)
  if not text or text:sub(1, #HEAD) ~= HEAD or text:sub(-#TAIL) ~= TAIL then
    return nil
  end
  local record = {}
  for line in text:sub(#HEAD + 1, -#TAIL - 1):gmatch("[^\n]+") do
    record[#record + 1] = line
  end
  return record
end

--- The lines of the record; none when there is no whole one.
function installed.read()
  return parse(disk.read(RECORD)) or parse(disk.read(RECORD .. ".new")) or {}
end

--- True, or nil and a sentence.
function installed.write(record)
  local lines = #record > 0 and table.concat(record, "\n") .. "\n" or ""
  return disk.replace(RECORD, HEAD .. lines .. TAIL)
end

--- Whether a file has the bytes that the installer gave it.
function installed.is_ours(record, path)
  local bytes = disk.read(path)
  local wanted = bytes and ("made %s %s"):format(path, sha256.hex(bytes))
  for _, line in ipairs(record) do
    if line == wanted then
      return true
    end
  end
  return false
end

--- The player's program that ours at `path` stands in for, where it is now; nil: none.
function installed.moved(record, path)
  for _, line in ipairs(record) do
    local from, to = line:match("^moved (%S+) (%S+)$")
    if from == path then
      return to
    end
  end
end

--- Takes a file of ours away; a sentence when it is no longer ours.
local function unmake(record, path)
  if not fs.exists(path) or fs.isDir(path) then
    return nil
  elseif not installed.is_ours(record, path) then
    return path .. " was changed since, so it is left."
  end
  local ok, why = disk.try(fs.delete, path)
  return not ok and ("%s cannot be deleted: %s."):format(path, why) or nil
end

--- Moves a file of the player's back; a sentence when its place is taken.
local function move_back(from, to)
  if not fs.exists(to) then
    return nil
  elseif fs.exists(from) then
    return ("%s is left at %s, because something else is at %s."):format("Your program", to, from)
  end
  local ok, why = disk.try(fs.move, to, from)
  return not ok and ("%s cannot be moved back to %s: %s."):format(to, from, why) or nil
end

local function undo_line(record, line)
  local path = line:match("^made (%S+) ")
  local from, to = line:match("^moved (%S+) (%S+)$")
  local label = line:match("^label (.*)$")
  if path then
    return unmake(record, path)
  elseif from then
    return move_back(from, to)
  elseif label and (os.getComputerLabel()) == label then
    os.setComputerLabel(nil)
  end
end

--- Undoes it all; the sentences about what was left, each once. Safe to be cut short and done again.
function installed.undo(record)
  local said, list = {}, {}
  for _, kind in ipairs({ "made", "moved", "label" }) do
    for _, line in ipairs(record) do
      local sentence = line:find("^" .. kind .. " ") and undo_line(record, line)
      if sentence and not said[sentence] then
        said[sentence] = true
        list[#list + 1] = sentence
      end
    end
  end
  return list
end

return installed
