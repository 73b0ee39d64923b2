--- Keeps programs that run from here out of the client's own directory: the computer's token is there.
--
-- A program finds these functions in `fs` while it runs, and so does all that it calls, such as `io.open`, `loadfile`
-- and `copy`. A directory that has ours in it cannot be copied or moved either. What it cannot stop: a function of
-- `fs` that somebody kept before the program began, and a program that leaves something behind for the player to run.
-- @module ours

-- luacheck: globals fs
local disk = require("disk")
local Guard = require("guard")
local paths = require("paths")

local ours = {}

--- The functions of `fs` that are replaced.
local NAMES = { "open", "copy", "move", "delete" }
local DENIED = ": Access denied"

--- Whether a path, in any spelling, is our directory or below it; with `around` also what has it in it.
local function checker(native)
  local combine, exists = native.combine, native.exists
  return function(path, around)
    if type(path) ~= "string" then
      return false
    end
    local ok, combined = disk.try(combine, "", path)
    local canonical = paths.canonical(path)
    if paths.is_protected(canonical) or ok and paths.is_protected(combined) then
      return true
    end
    local has, found = disk.try(exists, paths.join(canonical, disk.OWN))
    return around == true and has and found
  end
end

--- The functions that a program gets: name to function.
-- @tparam table native the functions of the game
function ours.functions(native)
  local is_ours = checker(native)
  local own = {}
  --- Errors with the position of the program that called, as the game's own functions do.
  local function denied(path)
    error("/" .. path .. DENIED, 3)
  end
  function own.open(path, ...)
    if is_ours(path) then
      return nil, "/" .. path .. DENIED
    end
    return native.open(path, ...)
  end
  -- The game's function is called in the place of ours, so that its errors name the program's line and not ours.
  function own.copy(from, to, ...)
    if is_ours(from, true) or is_ours(to) then
      denied(from)
    end
    return native.copy(from, to, ...)
  end
  function own.move(from, to, ...)
    if is_ours(from, true) or is_ours(to) then
      denied(from)
    end
    return native.move(from, to, ...)
  end
  function own.delete(path, ...)
    if is_ours(path) then
      denied(path)
    end
    return native.delete(path, ...)
  end
  return own
end

--- Puts a run's own functions into `fs`, and returns a function that puts back what was there.
-- @tparam table run what the program has put in their place waits there for its next turn
function ours.put(run)
  local library, before = fs, {}
  for name, value in pairs(library) do
    before[name] = value
  end
  run.fs = run.fs or ours.functions(before)
  for _, name in ipairs(NAMES) do
    library[name] = run.fs[name]
  end
  return function()
    for _, name in ipairs(NAMES) do
      run.fs[name], library[name] = library[name], before[name]
    end
  end
end

Guard.owns(ours.put)

return ours
