--- Methods that change files, each through its swap files: fs_write, fs_edit, fs_delete, fs_move, fs_mkdir.
-- @module changing

local answers = require("answers")
local failure = require("failure")
local files = require("files")
local params = require("params")
local paths = require("paths")
local sha256 = require("sha256")
local Swap = require("swap")

local changing = {}

--- The hash of a directory with nothing in it.
local EMPTY_DIRECTORY = sha256.hex("")
--- Occurrences counted between two pauses.
local PAUSE_EVERY = 1000

--- Raises what forbids a change at a path, whatever is there.
local function check_place(path)
  if paths.is_mount(path) then
    failure.raise("access_denied", "This is a disk, not a file.")
  end
  files.check_above(path)
end

local function check_writable(path)
  if files.ask(fs.isReadOnly, path) then
    failure.raise("read_only", "This path is read-only.")
  end
end

--- Looks at what a change would change, and raises whatever forbids it.
local function look(given, job)
  check_place(given.path)
  local shot = files.snapshot(given.path, job.pause)
  if shot.hash ~= given.if_hash then
    answers.stale(shot.hash)
  end
  check_writable(given.path)
  return shot
end

local function look_at_file(given, job)
  local shot = look(given, job)
  if shot.kind == "directory" then
    failure.raise("is_directory", "There is a directory at this path.")
  end
  return shot
end

--- Looks at what of another kind a change takes the place of: it has to be said that it is known to be there.
local function look_at_other(given, kind, job)
  if given.replaces ~= kind then
    params.bad("What this makes can only replace a " .. kind .. ".")
  end
  local shot = look(given, job)
  if shot.kind ~= kind then
    answers.stale(shot.hash)
  end
  return shot
end

local function need_something(shot)
  if shot.kind == "absent" then
    failure.raise("not_found", "There is nothing at this path.")
  end
end

--- Raises unless nothing is at a path where something is to be made.
local function need_nothing(path)
  check_place(path)
  if files.kind(path) ~= "absent" then
    failure.raise("exists", "There is something at this path already.")
  end
  check_writable(path)
end

--- The plan of a change: its swap files, and the step that ends in these data or is unknown.
local function by_swap(job, method, shot, change, data)
  local swap = Swap.make(job.call_id, method, shot.path, change)
  local after = change.after
  return {
    swap = swap,
    act = function()
      local stepped, unknown = swap:step(shot)
      if stepped then
        if change.bytes then
          -- The next look at it does not hash it again.
          files.remember(shot.path, change.bytes, after)
        end
        return answers.done(data, nil, after)
      end
      local sentence = "The change failed half way; what was there is kept in " .. swap.old .. "."
      return { ok = false, code = "outcome_unknown", message = sentence, data = {}, unknown = unknown }
    end,
  }
end

function changing.fs_write(given, body, has_body, job)
  params.check(given, { "path", "if_hash", "replaces?" })
  if not has_body then
    params.bad("The bytes to write must come as the body.")
  end
  local shot = given.replaces and look_at_other(given, "directory", job) or look_at_file(given, job)
  local hash = job.body_sha256
  local data = { size = #body, sha256 = hash, before = shot.hash }
  return by_swap(job, "fs_write", shot, { bytes = body, after = hash }, data)
end

--- Where the old bytes are in a text, and how often; places that overlap count too.
local function occurrences(text, old, pause)
  local first, count, position = nil, 0, 1
  while true do
    position = text:find(old, position, true)
    if not position then
      return first, count
    end
    first, count, position = first or position, count + 1, position + 1
    if count % PAUSE_EVERY == 0 then
      pause()
    end
  end
end

--- The bytes of a file with its one occurrence of the old bytes replaced by the new ones.
local function edited(text, body, old_size, pause)
  local old = body:sub(1, old_size)
  local first, count = occurrences(text, old, pause)
  if count == 0 then
    failure.raise("no_match", "The old bytes are not in the file.")
  elseif count > 1 then
    failure.raise("several_matches", "The old bytes are in the file more than once.", { count = count })
  end
  return text:sub(1, first - 1) .. body:sub(old_size + 1) .. text:sub(first + old_size)
end

function changing.fs_edit(given, body, has_body, job)
  params.check(given, { "path", "if_hash", "old_size" })
  if not has_body or given.old_size > #body then
    params.bad("The body must be the old bytes, of which there are old_size, and then the new.")
  end
  local shot = look_at_file(given, job)
  need_something(shot)
  local bytes = edited(shot.bytes, body, given.old_size, job.pause)
  local hash = sha256.hex(bytes, job.pause)
  local data = { size = #bytes, sha256 = hash, before = shot.hash }
  return by_swap(job, "fs_edit", shot, { bytes = bytes, after = hash }, data)
end

function changing.fs_delete(given, body, has_body, job)
  params.check(given, { "path", "if_hash" })
  params.no_body(body, has_body)
  local shot = look(given, job)
  need_something(shot)
  return by_swap(job, "fs_delete", shot, { after = files.ABSENT }, { before = shot.hash })
end

--- Whether a path is below another one, on a host that knows no letter case too.
local function is_inside(path, directory)
  return (path:lower() .. "/"):sub(1, #directory + 1) == directory:lower() .. "/" and #path > #directory
end

function changing.fs_move(given, body, has_body, job)
  params.check(given, { "path", "if_hash", "to", "if_to" })
  params.no_body(body, has_body)
  if is_inside(given.to, given.path) then
    params.bad("A directory cannot be moved into itself.")
  end
  local shot = look(given, job)
  need_something(shot)
  need_nothing(given.to)
  local change = { to = given.to, shot = shot, after = shot.hash, pause = job.pause }
  return by_swap(job, "fs_move", shot, change, { before = shot.hash })
end

function changing.fs_mkdir(given, body, has_body, job)
  params.check(given, { "path", "if_hash", "replaces?" })
  params.no_body(body, has_body)
  local shot
  if given.replaces then
    shot = look_at_other(given, "file", job)
  elseif given.if_hash ~= files.ABSENT then
    params.bad("if_hash of a directory to be made must be absent.")
  else
    need_nothing(given.path)
    shot = files.snapshot(given.path, job.pause)
  end
  return by_swap(job, "fs_mkdir", shot, { after = EMPTY_DIRECTORY }, { before = shot.hash })
end

return changing
