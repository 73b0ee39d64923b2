--- What a call can do: one function for each method of docs/protocol.md section 1.6.
--
-- A method takes its parameters and prepares: it may look and hash, and make swap files, but touches
-- nothing of the player's. It returns `{act, swap}`; `act` runs after the call is durably `started`
-- and returns the outcome `{ok, code, message, data, body, hash, unknown}`. Whoever cannot go on
-- raises a failure.
-- @module methods

local disk = require("disk")
local failure = require("failure")
local files = require("files")
local frame = require("frame")
local json = require("json")
local paths = require("paths")
local programs = require("programs")
local sha256 = require("sha256")
local Swap = require("swap")

local methods = {}

-- Parameters --------------------------------------------------------------------------------------

local MAX_TIMEOUT_S = 86400

local function bad(what)
  failure.raise("bad_params", what)
end

local CHECKS = {}

function CHECKS.path(value)
  if type(value) ~= "string" then
    bad("path must be a string.")
  end
  local ok, sentence, becomes = paths.check(value)
  if not ok then
    failure.raise("bad_path", sentence, { becomes = becomes and becomes:sub(1, paths.MAX_BYTES) })
  elseif paths.is_protected(value) then
    failure.raise("access_denied", "This is the client's own directory.")
  end
end

function CHECKS.if_hash(value)
  local is_hash = type(value) == "string" and #value == 64 and value:find("^[0-9a-f]+$")
  if not is_hash and value ~= files.ABSENT then
    bad("if_hash must be a sha256 in lower-case hex, or absent.")
  end
end

function CHECKS.timeout_s(value)
  if type(value) ~= "number" or value < 1 or value > MAX_TIMEOUT_S then
    bad("timeout_s must be from 1 to " .. MAX_TIMEOUT_S .. ".")
  end
end

function CHECKS.command(value)
  if type(value) ~= "string" or value == "" or #value > paths.MAX_BYTES then
    bad("command must be the name of a program.")
  end
end

--- Raises unless exactly the named parameters are there and each is sound.
local function check(params, names)
  for _, name in ipairs(names) do
    CHECKS[name](params[name])
  end
  for name in pairs(params) do
    local known = false
    for _, expected in ipairs(names) do
      known = known or name == expected
    end
    if not known then
      bad("There is a parameter that this method does not have.")
    end
  end
end

local function no_body(body, has_body)
  if has_body or body ~= "" then
    bad("This method takes no body.")
  end
end

--- The body as a list of strings.
local function words(body, has_body)
  local list, what = json.decode(has_body and body or "[]")
  if not json.is_array(list) then
    bad("The body must be a JSON list: " .. (what or "it is something else") .. ".")
  end
  for _, word in ipairs(list) do
    if type(word) ~= "string" then
      bad("The body must be a list of strings.")
    end
  end
  return list
end

local function stale(actual)
  failure.raise("stale", "What is there is not what the call expects.", { actual = actual })
end

local function done(data, body, hash)
  return { ok = true, data = data, body = body, hash = hash }
end

local function after_start(act)
  return { act = act }
end

-- Looking -----------------------------------------------------------------------------------------

local function list_entry(path, name)
  local full = paths.join(path, name)
  local is_directory = files.ask(fs.isDir, full)
  return { name = name, dir = is_directory, size = is_directory and 0 or files.ask(fs.getSize, full) }
end

local function need(path, wanted)
  local kind = files.kind(path)
  if kind == "absent" then
    failure.raise("not_found", "There is nothing at this path.")
  elseif kind ~= wanted then
    local code = kind == "directory" and "is_directory" or "not_a_directory"
    failure.raise(code, "There is a " .. kind .. " at this path.")
  end
end

local function fits(body)
  if #body > frame.MAX_BODY_BYTES then
    failure.raise("too_large", "More than one frame carries.", { size = #body })
  end
  return body
end

function methods.fs_list(params, body, has_body)
  check(params, { "path" })
  no_body(body, has_body)
  return after_start(function()
    need(params.path, "directory")
    local names = files.ask(fs.list, params.path)
    table.sort(names)
    local entries = json.array({})
    for index, name in ipairs(names) do
      entries[index] = list_entry(params.path, name)
    end
    return done({ count = #entries }, fits(json.encode(entries)))
  end)
end

function methods.fs_read(params, body, has_body, job)
  check(params, { "path" })
  no_body(body, has_body)
  return after_start(function()
    need(params.path, "file")
    local bytes, message = disk.read(params.path)
    if not bytes then
      failure.raise_fs(message)
    end
    fits(bytes)
    return done({ size = #bytes, sha256 = sha256.hex(bytes, job.pause) }, bytes)
  end)
end

--- The program that a word means, by alias and shell path; raises `not_found`.
local function resolve(word)
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
  CHECKS.path(path)
  return path
end

local function stat(path, pause)
  local shot = files.snapshot(path, pause, true)
  return done({
    kind = shot.kind,
    path = path,
    size = shot.size or 0,
    sha256 = shot.hash,
    read_only = files.ask(fs.isReadOnly, path),
  })
end

function methods.fs_stat(params, body, has_body, job)
  check(params, { params.command ~= nil and "command" or "path" })
  no_body(body, has_body)
  return after_start(function()
    return stat(params.path or resolve(params.command), job.pause)
  end)
end

-- Changing ----------------------------------------------------------------------------------------

--- Looks at what a change would change, and raises whatever forbids it.
local function look(params, job)
  if paths.is_mount(params.path) then
    failure.raise("access_denied", "This is a disk, not a file.")
  end
  files.check_above(params.path)
  local shot = files.snapshot(params.path, job.pause)
  if shot.hash ~= params.if_hash then
    stale(shot.hash)
  elseif files.ask(fs.isReadOnly, params.path) then
    failure.raise("read_only", "This path is read-only.")
  end
  return shot
end

--- The outcome of a step: done with these data, or unknown.
local function after_step(swap, shot, data, hash)
  local stepped, unknown = swap:step(shot)
  if stepped then
    return done(data, nil, hash)
  end
  local sentence = "The change failed half way; what was there is kept in " .. swap.old .. "."
  return { ok = false, code = "outcome_unknown", message = sentence, data = {}, unknown = unknown }
end

function methods.fs_write(params, body, has_body, job)
  check(params, { "path", "if_hash" })
  if not has_body then
    bad("The bytes to write must come as the body.")
  end
  local shot = look(params, job)
  if shot.kind == "directory" then
    failure.raise("is_directory", "There is a directory at this path.")
  end
  local after = job.body_sha256
  local swap = Swap.make(job.call_id, "fs_write", params.path, body, after)
  return {
    swap = swap,
    act = function()
      return after_step(swap, shot, { size = #body, sha256 = after, before = shot.hash }, after)
    end,
  }
end

function methods.fs_delete(params, body, has_body, job)
  check(params, { "path", "if_hash" })
  no_body(body, has_body)
  local shot = look(params, job)
  if shot.kind == "absent" then
    failure.raise("not_found", "There is nothing at this path.")
  end
  local swap = Swap.make(job.call_id, "fs_delete", params.path, "", files.ABSENT)
  return {
    swap = swap,
    act = function()
      return after_step(swap, shot, { before = shot.hash }, files.ABSENT)
    end,
  }
end

-- Running -----------------------------------------------------------------------------------------

local CODES = { error = "program_error", timed_out = "timed_out", abandoned = "abandoned" }

local function run(params, arguments, job)
  need(params.path, "file")
  local bytes, message = disk.read(params.path)
  if not bytes then
    failure.raise_fs(message)
  end
  local hash = sha256.hex(bytes, job.pause)
  if hash ~= params.if_hash then
    stale(hash)
  end
  local program = { path = params.path, bytes = bytes, arguments = arguments, timeout_s = params.timeout_s }
  local result = programs.run(program, job.next_event)
  local data = { ended = result.ended, path = params.path, sha256 = hash }
  data.output, data.cut = #result.output, result.cut
  local ok = result.ended == "returned"
  local body = result.output .. result.traceback
  return { ok = ok, code = CODES[result.ended], message = result.message, data = data, body = body }
end

local function check_run(params)
  check(params, { "path", "if_hash", "timeout_s" })
  if params.if_hash == files.ABSENT then
    bad("A program that is absent cannot run.")
  end
end

function methods.run_program(params, body, has_body, job)
  check_run(params)
  local arguments = words(body, has_body)
  return after_start(function()
    return run(params, arguments, job)
  end)
end

function methods.shell(params, body, has_body, job)
  check_run(params)
  local list = words(body, has_body)
  if #list == 0 then
    bad("The body must name a program first.")
  end
  return after_start(function()
    local path = resolve(list[1])
    if path ~= params.path then
      local actual = files.snapshot(path, job.pause).hash
      failure.raise("stale", "The word means another program now.", { actual = actual, path = path })
    end
    return run(params, { table.unpack(list, 2) }, job)
  end)
end

return methods
