--- Values as text and back, tables on the screen, and text for URLs.
-- @module textutils

local kernel = ...
local textutils = {}

local KEYWORDS = {}
local WORDS = "and break do else elseif end false for function goto if in local nil not or repeat "
  .. "return then true until while"
for word in WORDS:gmatch("%a+") do
  KEYWORDS[word] = true
end

local write_value

local function write_key(key, options)
  if type(key) == "string" and key:find("^[%a_][%w_]*$") and not KEYWORDS[key] then
    return key
  end
  return (options.compact and "[%s]" or "[ %s ]"):format(write_value(key, options, ""))
end

local function write_table(value, options, indent)
  if next(value) == nil then
    return "{}"
  end
  local line, comma, equals = "\n", ",\n", " = "
  local inner = indent .. "  "
  if options.compact then
    line, comma, equals, inner, indent = "", ",", "=", "", ""
  end
  local parts = { "{" .. line }
  for _, item in ipairs(value) do
    parts[#parts + 1] = inner .. write_value(item, options, inner) .. comma
  end
  local length = #value
  for key, item in pairs(value) do
    local listed = type(key) == "number" and key >= 1 and key <= length and key % 1 == 0
    if not listed then
      parts[#parts + 1] = inner .. write_key(key, options) .. equals
      parts[#parts + 1] = write_value(item, options, inner) .. comma
    end
  end
  return table.concat(parts) .. indent .. "}"
end

function write_value(value, options, indent)
  local kind = type(value)
  if kind == "string" then
    return (("%q"):format(value))
  elseif kind == "number" and value ~= value then
    return "0/0"
  elseif kind == "number" and value == math.huge then
    return "1/0"
  elseif kind == "number" and value == -math.huge then
    return "-1/0"
  elseif kind == "nil" or kind == "boolean" or kind == "number" then
    return tostring(value)
  elseif kind ~= "table" then
    error("Cannot serialize type " .. kind, 0)
  elseif options.seen[value] then
    error("Cannot serialize table with " .. options.seen[value] .. " entries", 0)
  end
  options.seen[value] = "recursive"
  local text = write_table(value, options, indent)
  options.seen[value] = not options.allow_repetitions and "repeated" or nil
  return text
end

--- A value as a Lua expression. Throws at functions and at tables that come twice.
function textutils.serialize(value, options)
  options = options or {}
  local own = { compact = options.compact, allow_repetitions = options.allow_repetitions, seen = {} }
  return write_value(value, own, "")
end

--- The value of a Lua expression, or nil.
function textutils.unserialize(text)
  if type(text) ~= "string" then
    error("bad argument #1 (string expected, got " .. type(text) .. ")", 2)
  end
  local chunk = load("return " .. text, "=unserialize", "t", {})
  local ok, value = pcall(chunk or error)
  if ok then
    return value
  end
end

local json = assert(loadfile("rom/apis/textutils_json.lua"))(kernel.host.at_least)
for name, fn in pairs(json) do
  textutils[name] = fn
end

for _, name in ipairs({ "serialize", "unserialize", "serializeJSON", "unserializeJSON" }) do
  textutils[name:gsub("ize", "ise")] = textutils[name]
end

--- A text as part of a URL; blanks become `+`.
function textutils.urlEncode(text)
  local escaped = text:gsub("\n", "\r\n"):gsub("[^%w%-_%. ]", function(char)
    return ("%%%02X"):format(char:byte())
  end)
  return (escaped:gsub(" ", "+"))
end

--- An hour of the day as text.
function textutils.formatTime(hours, is_24)
  local hour, minute = math.floor(hours), math.floor(hours % 1 * 60)
  if is_24 then
    return ("%d:%02d"):format(hour, minute)
  end
  return ("%d:%02d %s"):format((hour + 11) % 12 + 1, minute, hour >= 12 and "PM" or "AM")
end

function textutils.slowWrite(text, rate)
  for char in tostring(text):gmatch(".") do
    sleep(1 / (rate or 20))
    write(char)
  end
end

function textutils.slowPrint(text, rate)
  textutils.slowWrite(text, rate)
  print()
end

--- Prints; nobody is there to press a key.
function textutils.pagedPrint(text)
  return print(text)
end

--- Prints lists, one row each.
function textutils.tabulate(...)
  for _, row in ipairs({ ... }) do
    if type(row) == "table" and #row > 0 then
      print(table.concat(row, "  "))
    end
  end
end
textutils.pagedTabulate = textutils.tabulate

return textutils
