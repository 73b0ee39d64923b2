--- Keeps programs that run from here out of the client's own directory, where the computer's token is, and from
-- typing `cc` as if a player did.
--
-- A program finds these functions in `fs` while it runs, and so does all that it calls, such as `io.open`, `loadfile`
-- and `copy`. A directory that has ours in it cannot be copied or moved either. They run in the program's turn, where
-- `string` and what its texts have as methods may be the program's, so none of them calls a method of a text. What
-- this cannot stop: a function of `fs` that somebody kept before the program began, and a program that leaves
-- something behind for the player to run.
-- @module ours

local disk = require("disk")
local Guard = require("guard")
local paths = require("paths")
local whereabouts = require("whereabouts")

local ours = {}

local DENIED = ": Access denied"
--- The events by which `cc` speaks with the client begin so.
local EVENTS = "cc_orchestrator_"
-- A program may put its own into the table.
local native_sub, pack = string.sub, table.pack

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
  local open, copy, move, delete = native.open, native.copy, native.move, native.delete
  local own = {}
  --- Errors with the position of the program that called, as the game's own functions do.
  local function denied(path)
    error("/" .. path .. DENIED, 3)
  end
  function own.open(path, ...)
    if is_ours(path) then
      return nil, "/" .. path .. DENIED
    end
    return open(path, ...)
  end
  -- The game's function is called in the place of ours, so that its errors name the program's line and not ours.
  function own.copy(from, to, ...)
    if is_ours(from, true) or is_ours(to) then
      denied(from)
    end
    return copy(from, to, ...)
  end
  function own.move(from, to, ...)
    if is_ours(from, true) or is_ours(to) then
      denied(from)
    end
    return move(from, to, ...)
  end
  function own.delete(path, ...)
    if is_ours(path) then
      denied(path)
    end
    return delete(path, ...)
  end
  return own
end

--- `os.queueEvent` for a program: a task must not begin, answer or stop tasks in the name of a player.
-- @tparam function native the function of the game
-- @tparam function keep is told a packed event; true: it has kept it for the program, and nobody else may get it
function ours.queue(native, keep)
  return function(name, ...)
    if type(name) == "string" and native_sub(name, 1, #EVENTS) == EVENTS then
      error("A program of a task cannot use `cc`: only a player can.", 2)
    elseif keep(pack(name, ...), native) then
      return
    end
    return native(name, ...)
  end
end

--- What a run has in `fs`, `os` and `gps` in place of the game's, as `shared.view` takes it; `keep` as of `ours.queue`.
function ours.own(keep)
  local library, own = _G.fs, { { _G.os, "queueEvent", ours.queue(_G.os.queueEvent, keep) } }
  for name, fn in pairs(ours.functions(library)) do
    own[#own + 1] = { library, name, fn }
  end
  if _G.gps then
    own[#own + 1] = { _G.gps, "locate", whereabouts.locate(_G.gps.locate) }
  end
  return own
end

Guard.owns(ours.own)
Guard.owns(whereabouts.locate)

return ours
