--- Looking at files: snapshots that can be hashed in slices and compared again at once.
--
-- A snapshot keeps the bytes, so that the step which changes something can look again, without
-- yielding, whether everything is still byte for byte what was hashed.
-- @module files

local disk = require("disk")
local failure = require("failure")
local paths = require("paths")
local sha256 = require("sha256")

local files = {}

files.ABSENT = "absent"

--- The most bytes of one snapshot: more than a computer's own disk holds by default.
local MAX_SNAPSHOT_BYTES = 2 * 1024 * 1024
--- The most entries of one directory tree: each costs 500 bytes, so 1 MB holds 2000.
local MAX_SNAPSHOT_ENTRIES = 4000
--- The most bytes whose hashes are remembered: as many as a computer's own disk holds by default.
local MAX_REMEMBERED_BYTES = 1024 * 1024
--- What is said of the biggest files of a full disk: it has to fit a header with each byte escaped.
local MAX_BIGGEST, MAX_BIGGEST_BYTES = 5, 300

--- Calls `fs`, raising the failure that its sentence means.
function files.ask(operation, ...)
  local results = table.pack(disk.try(operation, ...))
  if not results[1] then
    failure.raise_fs(results[2])
  end
  return table.unpack(results, 2, results.n)
end

--- `file`, `directory` or `absent`.
function files.kind(path)
  if not files.ask(fs.exists, path) then
    return "absent"
  end
  return files.ask(fs.isDir, path) and "directory" or "file"
end

local function read(path)
  local bytes, message = disk.read(path)
  if not bytes then
    failure.raise_fs(message)
  end
  return bytes
end

local function check_size(bytes)
  if bytes > MAX_SNAPSHOT_BYTES then
    failure.raise("too_large", "There is too much below this path to hash it.")
  end
end

local remembered, remembered_bytes = {}, 0

--- Remembers the hash of the bytes that a path has now.
function files.remember(path, bytes, hash)
  if #bytes > MAX_REMEMBERED_BYTES then
    return
  end
  local old = remembered[path]
  remembered_bytes = remembered_bytes + #bytes - (old and #old.bytes or 0)
  if remembered_bytes > MAX_REMEMBERED_BYTES then
    remembered, remembered_bytes = {}, #bytes
  end
  remembered[path] = { bytes = bytes, hash = hash }
end

--- The hash of the bytes of a file. What has not changed since the last look is not hashed again: comparing bytes is
-- the game's own work and takes next to nothing, hashing is ours and takes seconds for a full disk.
function files.hash(path, bytes, pause)
  local known = remembered[path]
  if known and known.bytes == bytes then
    return known.hash
  end
  local hash = sha256.hex(bytes, pause)
  files.remember(path, bytes, hash)
  return hash
end

--- The names in a directory, sorted, and those that the game lists and cannot reach. Never yields.
function files.names(path)
  local names, unreachable = {}, {}
  for _, name in ipairs(files.ask(fs.list, path)) do
    local list = files.ask(paths.is_reachable, path, name) and names or unreachable
    list[#list + 1] = name
  end
  table.sort(names)
  table.sort(unreachable)
  return names, unreachable
end

--- Adds every entry below `path` to `entries`, names relative to the top. The client's own
-- directory, other mounts and what cannot be reached are left out where `skip` says so, else refused.
local function walk(path, relative, entries, options)
  local names, unreachable = files.names(path)
  for _, name in ipairs(unreachable) do
    local below = paths.join(relative, name)
    if not options.skip then
      local sentence =
        "This directory holds a name that the game cannot reach, so what that is of cannot be kept."
      failure.raise("unreachable", sentence, { name = paths.shown(below) })
    end
    table.insert(entries.unreachable, below)
  end
  for _, name in ipairs(names) do
    local full, below = paths.join(path, name), paths.join(relative, name)
    if paths.is_protected(full) or paths.is_mount(full) then
      if not options.skip then
        failure.raise("access_denied", "This directory holds the client's own files or another disk.")
      end
    else
      local kind = files.ask(fs.isDir, full) and "directory" or "file"
      entries[#entries + 1] = { path = below, kind = kind }
      if #entries > options.max then
        failure.raise("too_large", "There are more than " .. options.max .. " files below this path.")
      elseif kind == "directory" then
        walk(full, below, entries, options)
      end
    end
    options.pause()
  end
end

--- Every entry below a directory as `{path, kind}`, sorted by path bytes, `path` relative to it.
-- @tparam string path
-- @tparam table options `{pause, max, skip}`: `max` entries at most; `skip` leaves out the client's own
-- files, other mounts and what cannot be reached instead of refusing
-- @return the list; its `unreachable` are the paths that the game lists and cannot reach
function files.below(path, options)
  local entries = { unreachable = {} }
  walk(path, "", entries, options)
  table.sort(entries, function(left, right)
    return left.path < right.path
  end)
  return entries
end

local function tree(path, pause, skip)
  local entries = files.below(path, { pause = pause, max = MAX_SNAPSHOT_ENTRIES, skip = skip })
  local size = 0
  for _, entry in ipairs(entries) do
    if entry.kind == "file" then
      entry.bytes = read(paths.join(path, entry.path))
      size = size + #entry.bytes
      check_size(size)
      pause()
    end
  end
  return entries
end

--- The lines that the hash of a directory is taken over.
local function manifest(path, entries, pause)
  local lines = {}
  for index, entry in ipairs(entries) do
    local hash = entry.bytes and files.hash(paths.join(path, entry.path), entry.bytes, pause) or "-"
    lines[index] = entry.path .. "\0" .. entry.kind .. "\0" .. hash .. "\n"
    pause()
  end
  return table.concat(lines)
end

local function nothing() end

local function look(path, pause, skip)
  local kind = files.kind(path)
  local shot = { path = path, kind = kind, skip = skip }
  if kind == "file" then
    shot.bytes = read(path)
    shot.size = #shot.bytes
    check_size(shot.size)
  elseif kind == "directory" then
    shot.entries = tree(path, pause, skip)
    shot.size = 0
  end
  return shot
end

--- What is at a canonical path, with its hash.
-- @tparam string path
-- @tparam function pause called often; may yield
-- @tparam ?boolean skip leave out the client's own files, other mounts and what cannot be reached instead of refusing
-- @return `{path, kind, hash, size?, bytes?, entries?, manifest?}`
function files.snapshot(path, pause, skip)
  local shot = look(path, pause, skip)
  if shot.kind == "file" then
    shot.hash = files.hash(path, shot.bytes, pause)
  elseif shot.kind == "directory" then
    shot.manifest = manifest(path, shot.entries, pause)
    shot.hash = sha256.hex(shot.manifest, pause)
  else
    shot.hash = files.ABSENT
  end
  return shot
end

--- Whether everything is still as in the snapshot, byte for byte. Never yields.
function files.is_same(shot)
  local now = look(shot.path, nothing, shot.skip)
  if now.kind ~= shot.kind or now.bytes ~= shot.bytes then
    return false
  end
  local before, after = shot.entries or {}, now.entries or {}
  if #before ~= #after then
    return false
  end
  for index, entry in ipairs(before) do
    local other = after[index]
    if entry.path ~= other.path or entry.kind ~= other.kind or entry.bytes ~= other.bytes then
      return false
    end
  end
  return true
end

--- The biggest files of a disk, the client's own left out, each on a line as `SIZE PATH`; nil: nobody can tell.
function files.biggest(mount)
  local ok, entries = pcall(files.below, mount, { pause = nothing, max = MAX_SNAPSHOT_ENTRIES, skip = true })
  local sized = {}
  for _, entry in ipairs(ok and entries or {}) do
    local path = paths.join(mount, entry.path)
    local found, size = disk.try(fs.getSize, path)
    if entry.kind == "file" and found then
      sized[#sized + 1] = { size = size, line = ("%.0f %s"):format(size, path) }
    end
  end
  table.sort(sized, function(left, right)
    return left.size > right.size
  end)
  local lines, bytes = {}, 0
  for _, one in ipairs(sized) do
    if #lines < MAX_BIGGEST and bytes + #one.line < MAX_BIGGEST_BYTES then
      lines[#lines + 1], bytes = one.line, bytes + #one.line + 1
    end
  end
  return lines[1] and table.concat(lines, "\n")
end

--- Raises `not_a_directory` when something above the path is a file.
function files.check_above(path)
  local above = paths.parent(path)
  while above ~= "" do
    if files.kind(above) == "file" then
      failure.raise("not_a_directory", "A part of the path is a file, not a directory.", { file = above })
    end
    above = paths.parent(above)
  end
end

return files
