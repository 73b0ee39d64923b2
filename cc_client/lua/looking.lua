--- Methods that look at files: fs_list, fs_read, fs_stat.
-- @module looking

local answers = require("answers")
local files = require("files")
local params = require("params")
local paths = require("paths")

local looking = {}

--- What lists say of an entry.
local function entry(path, name)
  local full = paths.join(path, name)
  local is_directory = files.ask(fs.isDir, full)
  return { name = name, dir = is_directory, size = is_directory and 0 or files.ask(fs.getSize, full) }
end

function looking.fs_list(given, body, has_body, job)
  params.check(given, { "path" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    answers.need(given.path, "directory")
    local names, unreachable = files.names(given.path)
    local list = answers.list(#names, function(index)
      return entry(given.path, names[index])
    end, job.pause)
    return answers.done(answers.with_unreachable({ count = #names }, unreachable), list)
  end)
end

function looking.fs_read(given, body, has_body, job)
  params.check(given, { "path" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    answers.need(given.path, "file")
    answers.check_size(files.ask(fs.getSize, given.path))
    local bytes = answers.read(given.path)
    answers.check_size(#bytes)
    local hash = files.hash(given.path, bytes, job.pause)
    local outcome = answers.done({ size = #bytes, sha256 = hash }, bytes)
    outcome.body_sha256 = hash
    return outcome
  end)
end

local function stat(path, pause)
  local shot = files.snapshot(path, pause, true)
  local data = { kind = shot.kind, path = path, size = shot.size or 0, sha256 = shot.hash }
  data.read_only = files.ask(fs.isReadOnly, path)
  data.mount = paths.is_mount(path) or nil
  answers.check_size(#(shot.manifest or ""))
  answers.with_unreachable(data, shot.entries and shot.entries.unreachable or {})
  local outcome = answers.done(data, shot.manifest)
  outcome.body_sha256 = shot.manifest and shot.hash
  return outcome
end

function looking.fs_stat(given, body, has_body, job)
  params.check(given, { given.command ~= nil and "command" or "path" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    return stat(given.path or answers.program(given.command), job.pause)
  end)
end

return looking
