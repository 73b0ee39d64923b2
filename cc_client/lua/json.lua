--- JSON for byte strings: the codec of frame headers, argument lists and listings.
--
-- A Lua string is bytes, and `textutils` turns bytes into UTF-8 in one direction only. Here
-- `\u00XX` is one byte both ways, and what is written is pure ASCII. Numbers are integers, as the
-- protocol has no others; `null` does not exist, but where values of programs are read. Reading takes
-- linear time and bounded depth, so that a hostile text can cost neither seconds nor the stack.
-- @module json

local json = {}

--- The deepest nesting that is read or written: the protocol needs 4.
json.MAX_DEPTH = 16
--- The largest number that is read or written; it survives `%.14g`.
json.MAX_NUMBER = 1e13

--- Stands for `null` in what is read loosely.
json.NULL = setmetatable({}, { __name = "json.null" })

local array_mark = { __name = "json.array" }
--- Whether what is read may have `null` and numbers that are no integers.
local is_loose = false

--- Marks a table as a list, so that an empty one is written `[]`.
function json.array(list)
  return setmetatable(list, array_mark)
end

--- Whether a value that was read (or marked) is a list.
function json.is_array(value)
  return type(value) == "table" and getmetatable(value) == array_mark
end

-- Writing -----------------------------------------------------------------------------------------

local NAMED = { ['"'] = '\\"', ["\\"] = "\\\\" }

local function escape(char)
  return NAMED[char] or string.format("\\u%04x", char:byte())
end

local function write_string(text)
  return '"' .. text:gsub('[%c"\\\127-\255]', escape) .. '"'
end

local function write_number(number)
  if number ~= math.floor(number) or math.abs(number) > json.MAX_NUMBER then
    error("json: not an integer within range: " .. tostring(number), 0)
  end
  return string.format("%.0f", number)
end

local write_value

local function write_list(list, out, depth)
  out[#out + 1] = "["
  for index = 1, #list do
    if index > 1 then
      out[#out + 1] = ","
    end
    write_value(list[index], out, depth)
  end
  out[#out + 1] = "]"
end

local function write_object(object, out, depth)
  local keys = {}
  for key in pairs(object) do
    if type(key) ~= "string" then
      error("json: an object has a key that is no string", 0)
    end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  out[#out + 1] = "{"
  for index, key in ipairs(keys) do
    out[#out + 1] = (index > 1 and "," or "") .. write_string(key) .. ":"
    write_value(object[key], out, depth)
  end
  out[#out + 1] = "}"
end

function write_value(value, out, depth)
  local kind = type(value)
  if depth == json.MAX_DEPTH and kind == "table" then
    error("json: nested too deep", 0)
  end
  if kind == "string" then
    out[#out + 1] = write_string(value)
  elseif kind == "number" then
    out[#out + 1] = write_number(value)
  elseif kind == "boolean" then
    out[#out + 1] = tostring(value)
  elseif kind == "table" and (json.is_array(value) or value[1] ~= nil) then
    write_list(value, out, depth + 1)
  elseif kind == "table" then
    write_object(value, out, depth + 1)
  else
    error("json: cannot write a " .. kind, 0)
  end
end

--- The value as ASCII text, keys sorted. Raises for what JSON cannot hold: that is a bug here.
function json.encode(value)
  local out = {}
  write_value(value, out, 0)
  return table.concat(out)
end

-- Reading -----------------------------------------------------------------------------------------
-- Each reader takes the text and a position and returns the value and the position after it.

local SHORT = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function fail(what, position)
  error({ json_error = what .. " at byte " .. position }, 0)
end

local function skip_blanks(text, position)
  return text:find("[^ \t\r\n]", position) or #text + 1
end

local function read_escape(text, position)
  local letter = text:sub(position, position)
  if SHORT[letter] then
    return SHORT[letter], position + 1
  end
  local hex = letter == "u" and text:match("^00(%x%x)", position + 1)
  if not hex then
    fail("an escape that is not one byte", position)
  end
  return string.char(tonumber(hex, 16)), position + 5
end

local function read_string(text, position)
  local parts = {}
  while true do
    local stop = text:find('["\\\0-\31\128-\255]', position)
    if not stop then
      fail("a string without an end", position)
    end
    parts[#parts + 1] = text:sub(position, stop - 1)
    local char = text:sub(stop, stop)
    if char == '"' then
      return table.concat(parts), stop + 1
    elseif char ~= "\\" then
      fail("a byte that must be escaped", stop)
    end
    parts[#parts + 1], position = read_escape(text, stop + 1)
  end
end

local function read_number(text, position)
  if is_loose then
    local digits = text:match("^%-?%d+%.?%d*[eE]?[+-]?%d*", position)
    return tonumber(digits) or fail("a number that is none", position), position + #digits
  end
  local digits = text:match("^%-?%d+", position)
  local after = position + #digits
  if digits:find("^%-?0%d") or text:find("^[%.eE]", after) or #digits > 15 then
    fail("a number that is no plain integer", position)
  end
  local number = tonumber(digits)
  if math.abs(number) > json.MAX_NUMBER then
    fail("a number out of range", position)
  end
  return number, after
end

local read_value

local function read_list(text, position, depth)
  local list = json.array({})
  position = skip_blanks(text, position)
  if text:sub(position, position) == "]" then
    return list, position + 1
  end
  while true do
    list[#list + 1], position = read_value(text, position, depth)
    position = skip_blanks(text, position)
    local char = text:sub(position, position)
    if char == "]" then
      return list, position + 1
    elseif char ~= "," then
      fail("a list without comma or end", position)
    end
    position = position + 1
  end
end

local function read_member(text, position, object, depth)
  position = skip_blanks(text, position)
  if text:sub(position, position) ~= '"' then
    fail("an object without a key", position)
  end
  local key, value
  key, position = read_string(text, position + 1)
  position = skip_blanks(text, position)
  if text:sub(position, position) ~= ":" or object[key] ~= nil then
    fail("a key without a value, or twice", position)
  end
  value, position = read_value(text, position + 1, depth)
  object[key] = value
  return skip_blanks(text, position)
end

local function read_object(text, position, depth)
  local object = {}
  position = skip_blanks(text, position)
  if text:sub(position, position) == "}" then
    return object, position + 1
  end
  while true do
    position = read_member(text, position, object, depth)
    local char = text:sub(position, position)
    if char == "}" then
      return object, position + 1
    elseif char ~= "," then
      fail("an object without comma or end", position)
    end
    position = position + 1
  end
end

function read_value(text, position, depth)
  position = skip_blanks(text, position)
  local char = text:sub(position, position)
  if depth == json.MAX_DEPTH and char:find("[%[{]") then
    fail("nesting too deep", position)
  elseif char == '"' then
    return read_string(text, position + 1)
  elseif char == "{" then
    return read_object(text, position + 1, depth + 1)
  elseif char == "[" then
    return read_list(text, position + 1, depth + 1)
  elseif text:find("^%-?%d", position) then
    return read_number(text, position)
  elseif text:sub(position, position + 3) == "true" then
    return true, position + 4
  elseif text:sub(position, position + 4) == "false" then
    return false, position + 5
  elseif is_loose and text:sub(position, position + 3) == "null" then
    return json.NULL, position + 4
  end
  return fail("no value", position)
end

local function read_whole(text)
  local value, position = read_value(text, 1, 0)
  if skip_blanks(text, position) <= #text then
    fail("something after the end", position)
  end
  return value
end

--- The value of a JSON text, or nil and what is wrong with it. Never raises for a bad text.
-- @tparam string text
-- @tparam ?boolean loose take any number, and `null` as `json.NULL`
function json.decode(text, loose)
  is_loose = loose == true
  local ok, value = pcall(read_whole, text)
  is_loose = false
  if ok then
    return value
  elseif type(value) == "table" and value.json_error then
    return nil, value.json_error
  end
  return nil, tostring(value)
end

return json
