--- Values as text and back: the part of textutils that small programs use.
-- @module textutils

local textutils = {}

local function write_value(value, seen, indent)
  if type(value) == "string" then
    return ("%q"):format(value)
  elseif type(value) ~= "table" then
    if type(value) == "function" or type(value) == "thread" then
      error("Cannot serialize type " .. type(value), 0)
    end
    return tostring(value)
  elseif seen[value] then
    error("Cannot serialize table with repeated entries", 0)
  end
  seen[value] = true
  if next(value) == nil then
    return "{}"
  end
  local parts, inner = { "{\n" }, indent .. "  "
  for _, item in ipairs(value) do
    parts[#parts + 1] = inner .. write_value(item, seen, inner) .. ",\n"
  end
  local length = #value
  for key, item in pairs(value) do
    local listed = type(key) == "number" and key >= 1 and key <= length and key % 1 == 0
    if not listed then
      local name = type(key) == "string" and key:find("^[%a_][%w_]*$") and key
        or "[ " .. write_value(key, seen, inner) .. " ]"
      parts[#parts + 1] = inner .. name .. " = " .. write_value(item, seen, inner) .. ",\n"
    end
  end
  return table.concat(parts) .. indent .. "}"
end

--- A value as a Lua expression.
function textutils.serialize(value)
  return write_value(value, {}, "")
end
textutils.serialise = textutils.serialize

--- The value of a Lua expression, or nil.
function textutils.unserialize(text)
  local chunk = load("return " .. text, "=unserialize", "t", {})
  local ok, value = pcall(chunk or error)
  return ok and value or nil
end
textutils.unserialise = textutils.unserialize

--- An hour of the day as text.
function textutils.formatTime(hours)
  return ("%d:%02d"):format(math.floor(hours), math.floor(hours % 1 * 60))
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
