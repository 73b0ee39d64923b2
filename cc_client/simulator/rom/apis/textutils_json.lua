--- JSON as textutils has it, with its asymmetry: bytes from 127 on are written as `\u00XX`, but
-- `\uXXXX` is read as UTF-8.
-- @module textutils_json

local at_least = ...
local json = {}

local function constant(text, sentence)
  return setmetatable({}, {
    __newindex = function()
      error("attempt to mutate " .. sentence, 2)
    end,
    __tostring = function()
      return text
    end,
  })
end

json.empty_json_array = constant("[]", "textutils.empty_json_array")
json.json_null = constant("null", "textutils.json_null")

-- Writing -----------------------------------------------------------------------------------------

local ESCAPES = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\b"] = "\\b", ["\f"] = "\\f" }
ESCAPES['"'], ESCAPES["\\"] = '\\"', "\\\\"

local function quote(text)
  return '"'
    .. text:gsub('[%c"\\\127-\255]', function(char)
      return ESCAPES[char] or ("\\u%04X"):format(char:byte())
    end)
    .. '"'
end

local write_value

local function write_list(value, options)
  local parts, length = {}, 0
  for key in pairs(value) do
    length = math.max(length, key)
  end
  for index = 1, length do
    parts[index] = value[index] == nil and "null" or write_value(value[index], options)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function write_table(value, options)
  local parts, keyed = {}, next(value) == nil
  for key, item in pairs(value) do
    if type(key) == "string" then
      keyed = true
      local name = options.unquoted and key:find("^[%a_][%w_]*$") and key or quote(key)
      parts[#parts + 1] = name .. ":" .. write_value(item, options)
    end
  end
  if keyed then
    return "{" .. table.concat(parts, ",") .. "}"
  end
  return write_list(value, options)
end

function write_value(value, options)
  local kind = type(value)
  if value == json.empty_json_array then
    return "[]"
  elseif value == json.json_null then
    return "null"
  elseif kind == "string" then
    return quote(value)
  elseif kind == "number" or kind == "boolean" then
    return tostring(value)
  elseif kind ~= "table" then
    error("Cannot serialize type " .. kind, 0)
  elseif options.seen[value] then
    error("Cannot serialize table with " .. options.seen[value] .. " entries", 0)
  end
  options.seen[value] = "recursive"
  local text = write_table(value, options)
  options.seen[value] = not options.repetitions and "repeated" or nil
  return text
end

--- A value as JSON.
-- @tparam[opt] boolean|table options keys without quotes, or `{nbt_style, allow_repetitions}`
function json.serializeJSON(value, options)
  local own = { seen = {}, unquoted = options == true }
  if type(options) == "table" then
    own.unquoted, own.repetitions = options.nbt_style, options.allow_repetitions and at_least(1, 109)
  end
  return write_value(value, own)
end

-- Reading -----------------------------------------------------------------------------------------

local function fail(position, sentence, ...)
  error({ told = ("Malformed JSON at position %d: %s"):format(position, sentence:format(...)) }, 0)
end

--- A code as UTF-8, halves of pairs each for itself.
local function utf_8(code)
  if code < 0x80 then
    return string.char(code)
  elseif code < 0x800 then
    return string.char(0xc0 + math.floor(code / 64), 0x80 + code % 64)
  end
  return string.char(0xe0 + math.floor(code / 4096), 0x80 + math.floor(code / 64) % 64, 0x80 + code % 64)
end

local PLAIN = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function read_string(text, position)
  local parts, start = {}, position
  while true do
    local stop = text:find('["\\%c]', position)
    if not stop then
      fail(start, "Unexpected end of input, expected '\"'.")
    end
    parts[#parts + 1] = text:sub(position, stop - 1)
    local char = text:sub(stop, stop)
    if char == '"' then
      return table.concat(parts), stop + 1
    elseif char ~= "\\" then
      fail(stop, "Unescaped whitespace.")
    end
    local escape = text:sub(stop + 1, stop + 1)
    local code = escape == "u" and text:match("^%x%x%x%x", stop + 2)
    if code then
      parts[#parts + 1], position = utf_8(tonumber(code, 16)), stop + 6
    elseif PLAIN[escape] then
      parts[#parts + 1], position = PLAIN[escape], stop + 2
    else
      fail(stop + 1, "Unknown escape character '%s'.", escape)
    end
  end
end

local function skip(text, position)
  return text:find("[^ \n\r\t]", position) or #text + 1
end

local read_value

local function read_object(text, position, options)
  local object = {}
  position = skip(text, position)
  if text:sub(position, position) == "}" then
    return object, position + 1
  end
  while true do
    local key
    if text:sub(position, position) ~= '"' then
      fail(position, "Expected object key.")
    end
    key, position = read_string(text, position + 1)
    position = skip(text, position)
    if text:sub(position, position) ~= ":" then
      fail(position, "Unexpected character, expected ':'.")
    end
    object[key], position = read_value(text, skip(text, position + 1), options)
    position = skip(text, position)
    local char = text:sub(position, position)
    if char == "}" then
      return object, position + 1
    elseif char ~= "," then
      fail(position, "Unexpected character, expected '}'.")
    end
    position = skip(text, position + 1)
  end
end

local function read_list(text, position, options)
  local list, length = {}, 0
  position = skip(text, position)
  if text:sub(position, position) == "]" then
    return options.plain_empty and {} or json.empty_json_array, position + 1
  end
  while true do
    length = length + 1
    list[length], position = read_value(text, position, options)
    position = skip(text, position)
    local char = text:sub(position, position)
    if char == "]" then
      return list, position + 1
    elseif char ~= "," then
      fail(position, "Unexpected character, expected ']'.")
    end
    position = skip(text, position + 1)
  end
end

local WORDS = { ["true"] = true, ["false"] = false }

function read_value(text, position, options)
  local char = text:sub(position, position)
  if char == '"' then
    return read_string(text, position + 1)
  elseif char == "{" then
    return read_object(text, position + 1, options)
  elseif char == "[" then
    return read_list(text, position + 1, options)
  end
  local number = text:match("^-?%d+%.?%d*[eE]?[+-]?%d*", position)
  local word = text:match("^%a+", position)
  if number and tonumber(number) then
    return tonumber(number), position + #number
  elseif word == "null" then
    return options.null, position + 4
  elseif word and WORDS[word] ~= nil then
    return WORDS[word], position + #word
  elseif char == "" then
    fail(position, "Unexpected end of input.")
  end
  fail(position, "Unexpected character '%s'.", char)
end

--- The value of a JSON text; nil and a sentence when it is none.
function json.unserializeJSON(text, options)
  if type(text) ~= "string" then
    error("bad argument #1 (string expected, got " .. type(text) .. ")", 2)
  end
  options = options or {}
  local own = { plain_empty = options.parse_empty_array == false and at_least(1, 100, 6) }
  if options.parse_null then
    own.null = json.json_null
  end
  local ok, value, position = pcall(read_value, text, skip(text, 1), own)
  if ok and skip(text, position) <= #text then
    ok, value = pcall(fail, skip(text, position), "Unexpected trailing character.")
  end
  if ok then
    return value
  elseif not at_least(1, 100) then
    return nil
  elseif type(value) == "table" then
    return nil, value.told
  end
  return nil, tostring(value)
end

return json
