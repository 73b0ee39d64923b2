--- What the methods share: outcomes, and bodies that are lists.
-- @module answers

local disk = require("disk")
local failure = require("failure")
local files = require("files")
local frame = require("frame")
local json = require("json")
local params = require("params")
local paths = require("paths")

local answers = {}

--- The outcome of a call that did what it was for.
function answers.done(data, body, hash)
  return { ok = true, data = data, body = body, hash = hash }
end

--- What is told of names that cannot be reached, as JSON: a path and a hash stand in the same header.
local MAX_UNREACHABLE_BYTES = 600

--- Adds to the data of an answer how many names the game lists and cannot reach, and the first of them, one a line.
function answers.with_unreachable(data, names)
  local lines, bytes = {}, 0
  for index, name in ipairs(names) do
    lines[index] = paths.shown(name)
    bytes = bytes + #json.encode(lines[index])
    if bytes > MAX_UNREACHABLE_BYTES then
      lines[index] = nil
      break
    end
  end
  if names[1] then
    data.unreachable, data.unreachable_names = #names, table.concat(lines, "\n")
  end
  return data
end

--- A method that has nothing to prepare.
function answers.after_start(act)
  return { act = act }
end

--- Raises `stale`.
function answers.stale(actual)
  failure.raise("stale", "What is there is not what the call expects.", { actual = actual })
end

--- Raises unless a `file` or a `directory` is there, as wanted.
function answers.need(path, wanted)
  local kind = files.kind(path)
  if kind == "absent" then
    failure.raise("not_found", "There is nothing at this path.")
  elseif kind ~= wanted then
    local code = kind == "directory" and "is_directory" or "not_a_directory"
    failure.raise(code, "There is a " .. kind .. " at this path.")
  end
end

--- The bytes of a file; raises what keeps it from being read.
function answers.read(path)
  local bytes, message = disk.read(path)
  if not bytes then
    failure.raise_fs(message)
  end
  return bytes
end

--- Raises `too_large` for what no body carries.
function answers.check_size(size)
  if size > frame.MAX_WHOLE_BYTES then
    failure.raise("too_large", "More than a body carries.", { size = size })
  end
end

--- The program that a word means, by alias and shell path; raises `not_found`.
function answers.program(word)
  if not shell then
    failure.raise("internal", "The client was not started by a shell.")
  end
  -- A program may have changed the directory of the client's shell; paths are from the root.
  shell.setDir("")
  local path = shell.resolveProgram(word)
  if not path then
    failure.raise("not_found", "There is no program of this name.")
  end
  path = paths.canonical(path)
  params.check_path(path)
  return path
end

--- Values between two pauses of `list`.
local PAUSE_EVERY = 50

--- A JSON list, made with pauses, of what `value(index)` answers from 1 to `count`, and how many went in.
-- @tparam ?boolean is_cut end the list before it is over what a body carries, instead of raising
function answers.list(count, value, pause, is_cut)
  local parts, size = {}, 2
  for index = 1, count do
    local text = json.encode(value(index))
    size = size + #text + 1
    if is_cut and size > frame.MAX_WHOLE_BYTES then
      break
    end
    answers.check_size(size)
    parts[index] = text
    if index % PAUSE_EVERY == 0 then
      pause()
    end
  end
  return "[" .. table.concat(parts, ",") .. "]", #parts
end

return answers
