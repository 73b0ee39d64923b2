--- Whole files as byte strings, without ever raising.
--
-- `fs` raises from some functions and answers nil and a sentence from others, and a write error may
-- come at `write` or at `close`; here every failure is nil and a sentence.
-- @module disk

local disk = {}

--- The client's own directory on every mount: configuration, journal, swap files.
disk.OWN = ".cc-orchestrator"

--- Calls a function of `fs` (or any other); nil and the sentence when it raises.
function disk.try(operation, ...)
  local results = table.pack(pcall(operation, ...))
  if results[1] then
    return true, table.unpack(results, 2, results.n)
  end
  return nil, tostring(results[2])
end

local function close(handle)
  return disk.try(handle.close)
end

--- The bytes of a file, or nil and a sentence.
function disk.read(path)
  local ok, handle, message = disk.try(fs.open, path, "rb")
  if not ok then
    return nil, handle
  elseif not handle then
    return nil, message or "cannot open"
  end
  local read, bytes = disk.try(handle.readAll)
  close(handle)
  if not read then
    return nil, bytes
  end
  -- Some hosts answer nil at the end of an empty file.
  return bytes or ""
end

--- Writes a whole file and looks that all of it arrived. True, or nil and a sentence.
function disk.write(path, bytes)
  local ok, handle, message = disk.try(fs.open, path, "wb")
  if not ok then
    return nil, handle
  elseif not handle then
    return nil, message or "cannot open"
  end
  local written, why = disk.try(handle.write, bytes)
  local closed, why_not = close(handle)
  if not written or not closed then
    return nil, why or why_not
  end
  local sized, size = disk.try(fs.getSize, path)
  if not sized or size ~= #bytes then
    return nil, "the file is shorter than what was written"
  end
  return true
end

--- Puts a whole file in the place of another, by way of `PATH.new`: one of the two is always whole.
function disk.replace(path, bytes)
  local temporary = path .. ".new"
  local ok, why = disk.write(temporary, bytes)
  if ok then
    ok, why = disk.try(fs.delete, path)
  end
  if ok then
    ok, why = disk.try(fs.move, temporary, path)
  end
  return ok, why
end

--- Bytes free where `path` is; math.huge where there is no limit.
function disk.free_bytes(path)
  local ok, free = disk.try(fs.getFreeSpace, path)
  if ok and type(free) == "number" then
    return free
  end
  return ok and math.huge or 0
end

return disk
