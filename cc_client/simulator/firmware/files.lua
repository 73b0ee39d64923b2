--- The global `fs`.
-- @module files

local kernel = ...
local host, native, expect = kernel.host, kernel.native, kernel.expect

fs = {}

local function path_function(name)
  local call = native("fs_" .. name)
  return function(path, ...)
    expect(1, path, "string")
    return call(path, ...)
  end
end

for _, name in ipairs({ "exists", "isDir", "isReadOnly", "makeDir", "delete", "getSize", "getDrive" }) do
  fs[name] = path_function(name)
end
for _, name in ipairs({ "move", "copy", "getFreeSpace", "getCapacity", "isDriveRoot", "getName", "getDir" }) do
  fs[name] = path_function(name)
end

--- The host answers lists as one text, entries ended by NUL.
local function list_of(name)
  local call = path_function(name)
  return function(path)
    local ok, text = pcall(call, path)
    if not ok then
      error(text, 2)
    end
    local list = {}
    for entry in text:gmatch("[^%z]+") do
      list[#list + 1] = entry
    end
    return list
  end
end
fs.list, fs.find = list_of("list"), list_of("find")

local clean = native("fs_combine")

function fs.combine(first, ...)
  expect(1, first, "string")
  local path = first
  for index, part in ipairs({ ... }) do
    expect(index + 1, part, "string")
    path = path .. "/" .. part
  end
  return clean(path)
end

local attributes = path_function("attributes")
function fs.attributes(path)
  local size, is_directory, is_read_only, created, modified = attributes(path)
  return {
    size = size,
    isDir = is_directory,
    isReadOnly = is_read_only,
    created = created,
    modified = modified,
    modification = modified,
  }
end

--- Before 1.109 a file opened without `b` was UTF-8 on the disk and latin-1 in Lua.
local FILES_ARE_BYTES = host.at_least(1, 109)

local function read_functions(handle, id)
  local read, read_all = native("file_read"), native("file_read_all")
  local read_line = native("file_read_line")
  function handle.read(count)
    local bytes = read(id, count or 1)
    if bytes and not count and handle.binary then
      return bytes:byte()
    end
    return bytes
  end
  function handle.readAll()
    return read_all(id)
  end
  function handle.readLine(with_end)
    return read_line(id, with_end == true)
  end
end

local function write_functions(handle, id)
  local write, flush = native("file_write"), native("file_flush")
  function handle.write(value)
    if type(value) == "number" and handle.binary then
      value = string.char(value)
    end
    return write(id, tostring(value))
  end
  function handle.writeLine(value)
    return write(id, tostring(value) .. "\n")
  end
  function handle.flush()
    return flush(id)
  end
end

local function make_handle(id, mode)
  local handle = {}
  if mode:find("r") or mode:find("+", 1, true) then
    read_functions(handle, id)
  end
  if not mode:find("r") or mode:find("+", 1, true) then
    write_functions(handle, id)
  end
  local seek, close = native("file_seek"), native("file_close")
  function handle.seek(whence, offset)
    return seek(id, whence or "cur", offset or 0)
  end
  function handle.close()
    return close(id)
  end
  return setmetatable(handle, { __index = { binary = mode:find("b") ~= nil } })
end

local function translate(handle)
  for _, name in ipairs({ "read", "readAll", "readLine" }) do
    local read = handle[name]
    handle[name] = read
      and function(...)
        local text = read(...)
        return text and host.from_text(text)
      end
  end
  for _, name in ipairs({ "write", "writeLine" }) do
    local put = handle[name]
    handle[name] = put and function(value)
      return put(host.to_text(tostring(value)))
    end
  end
  return handle
end

function fs.open(path, mode)
  expect(1, path, "string")
  expect(2, mode, "string")
  if not mode:find(FILES_ARE_BYTES and "^[rwa]%+?b?$" or "^[rwa]b?$") then
    error("Unsupported mode", 2)
  end
  local ok, id = host.fs_open(path, mode)
  if not ok then
    return nil, id
  end
  local handle = make_handle(id, mode)
  return (FILES_ARE_BYTES or mode:find("b")) and handle or translate(handle)
end
