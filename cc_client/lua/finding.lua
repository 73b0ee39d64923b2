--- The method fs_find: names by a glob, and lines in files.
-- @module finding

local answers = require("answers")
local failure = require("failure")
local files = require("files")
local frame = require("frame")
local glob = require("glob")
local params = require("params")
local paths = require("paths")

local finding = {}

--- More than a computer's own disk holds ten times over, each entry costing 500 bytes.
local MAX_ENTRIES = 20000
local MAX_LINES = 5
local MAX_TEXT_BYTES = 200
--- How much of a long line is shown before what was looked for.
local BEFORE_BYTES = 80
--- Line breaks counted, or entries matched, between two pauses.
local PAUSE_EVERY = 1000

--- The number of the line at `target`, counted on from the line `number` that begins at `start`, and its start.
local function count_lines(bytes, start, number, target, pause)
  while true do
    local stop = bytes:find("\n", start, true)
    if not stop or stop >= target then
      return number, start, stop or #bytes + 1
    end
    start, number = stop + 1, number + 1
    if number % PAUSE_EVERY == 0 then
      pause()
    end
  end
end

--- The first lines with the bytes in them; nil when they are not in the file.
local function lines_with(bytes, wanted, pause)
  local found, start, number = {}, 1, 1
  while #found < MAX_LINES do
    local first, last = bytes:find(wanted, start, true)
    if not first then
      break
    end
    local stop
    number, start, stop = count_lines(bytes, start, number, first, pause)
    local from = last - start < MAX_TEXT_BYTES and start or math.max(start, first - BEFORE_BYTES)
    local text = bytes:sub(from, math.min(stop - 1, from + MAX_TEXT_BYTES - 1))
    found[#found + 1] = { line = number, text = text }
    start, number = stop + 1, number + 1
  end
  return found[1] and found
end

--- What is told of a file when it holds the bytes, else nil.
local function search(full, wanted, pause)
  local size = files.ask(fs.getSize, full)
  if size > frame.MAX_WHOLE_BYTES then
    failure.raise("too_large", "A file is too large to look into: " .. full, { size = size })
  end
  return lines_with(answers.read(full), wanted, pause)
end

--- Those of the matching entries that count, as the answer tells them: at most `max`, and the number of all.
local function select(given, matching, pause)
  local list, count = {}, 0
  for _, entry in ipairs(matching) do
    local full, is_directory = paths.join(given.path, entry.path), entry.kind == "directory"
    local lines
    if given.contains then
      lines = not is_directory and search(full, given.contains, pause)
      pause()
    end
    if lines or not given.contains then
      count = count + 1
      if count <= given.max then
        list[count] = { path = full, dir = is_directory, lines = lines }
        list[count].size = is_directory and 0 or files.ask(fs.getSize, full)
      end
    end
  end
  return list, count
end

local function find(given, pause)
  answers.need(given.path, "directory")
  local matches, matching = glob(given.pattern), {}
  local entries = files.below(given.path, { pause = pause, max = MAX_ENTRIES, skip = true })
  for index, entry in ipairs(entries) do
    if matches(entry.path) then
      matching[#matching + 1] = entry
    end
    if index % PAUSE_EVERY == 0 then
      pause()
    end
  end
  local list, count = select(given, matching, pause)
  local body, told = answers.list(#list, function(index)
    return list[index]
  end, pause, true)
  local data = answers.with_unreachable({ count = count, cut = told < count }, entries.unreachable)
  return answers.done(data, body)
end

function finding.fs_find(given, body, has_body, job)
  params.check(given, { "path", "pattern", "contains?", "max" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    return find(given, job.pause)
  end)
end

return finding
