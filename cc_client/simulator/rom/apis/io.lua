--- Files as Lua has them, on top of `fs`; the standard ones are the screen and the keyboard.
-- @module io

local io = {}
local open_mark = {}
local File = { __name = "FILE*" }
File.__index = File

local function check(file)
  if file[open_mark] == nil then
    error("attempt to use a closed file", 3)
  end
  return file[open_mark]
end

--- A number from the front of what is left of a line, or nil; the rest of the line is lost.
local function read_number(handle)
  return tonumber(handle.readLine() or "")
end

local function read_one(handle, format)
  if type(format) == "number" then
    return handle.read(format)
  end
  format = string.gsub(format, "^%*", "")
  if format == "l" then
    return handle.readLine()
  elseif format == "L" then
    return handle.readLine(true)
  elseif format == "a" then
    return handle.readAll() or ""
  elseif format == "n" then
    return read_number(handle)
  end
  error("bad argument (invalid format)", 4)
end

local function read_each(handle, ...)
  local wanted = select("#", ...) > 0 and { ... } or { "l" }
  local found = {}
  for index, format in ipairs(wanted) do
    found[index] = read_one(handle, format)
    if found[index] == nil then
      break
    end
  end
  return table.unpack(found, 1, #wanted)
end

function File:read(...)
  return read_each(check(self), ...)
end

function File:write(...)
  local handle = check(self)
  for _, value in ipairs({ ... }) do
    local ok, why = pcall(handle.write, tostring(value))
    if not ok then
      return nil, why
    end
  end
  return self
end

function File:lines(...)
  local handle, formats = check(self), table.pack(...)
  return function()
    return read_each(handle, table.unpack(formats, 1, formats.n))
  end
end

function File:seek(whence, offset)
  return check(self).seek(whence, offset)
end

function File:flush()
  check(self).flush()
  return self
end

function File:setvbuf()
  check(self)
  return true
end

function File:close()
  check(self).close()
  self[open_mark] = nil
  return true
end

local function file_of(handle)
  return setmetatable({ [open_mark] = handle }, File)
end

-- The screen and the keyboard ---------------------------------------------------------------------

local function nothing() end

io.stdin = file_of({
  readLine = function(with_end)
    return read() .. (with_end and "\n" or "")
  end,
  readAll = function()
    return read()
  end,
  read = function()
    return read()
  end,
  close = nothing,
})
io.stdout = file_of({ write = write, flush = nothing, close = nothing })
io.stderr = file_of({
  write = function(text)
    local before = term.getTextColour()
    term.setTextColour(colors.red)
    write(text)
    term.setTextColour(before)
  end,
  flush = nothing,
  close = nothing,
})

local input, output = io.stdin, io.stdout

-- Files -------------------------------------------------------------------------------------------

--- A file; nil and a sentence when it cannot be opened. Modes are those of `fs.open`.
function io.open(path, mode)
  local handle, why = fs.open(path, mode or "r")
  if not handle then
    return nil, why
  end
  return file_of(handle)
end

--- The lines of a file, which is closed after the last.
function io.lines(path, ...)
  if path == nil then
    return input:lines(...)
  end
  local file, why = io.open(path, "r")
  if not file then
    error(why, 2)
  end
  local next_line = file:lines(...)
  return function()
    local found = table.pack(next_line())
    if found[1] == nil then
      file:close()
    end
    return table.unpack(found, 1, found.n)
  end
end

local function chosen(current, mode, file)
  if type(file) == "string" then
    local opened, why = io.open(file, mode)
    return opened or error(why, 3)
  end
  return file or current
end

function io.input(file)
  input = chosen(input, "r", file)
  return input
end
function io.output(file)
  output = chosen(output, "w", file)
  return output
end
function io.read(...)
  return input:read(...)
end
function io.write(...)
  return output:write(...)
end
function io.close(file)
  return (file or output):close()
end

--- `file`, `closed file`, or nil for what is none.
function io.type(value)
  if getmetatable(value) ~= File then
    return nil
  end
  return value[open_mark] and "file" or "closed file"
end

return io
