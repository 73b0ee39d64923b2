--- Any values of Lua as JSON, bounded: what cannot be said, or is too much, is a text that says so.
-- @module values

local json = require("json")

local values = {}

local MAX_BYTES, MAX_VALUES, MAX_DEPTH, MAX_TEXT_BYTES = 32768, 2000, 8, 4096

local function number(value)
  if value ~= value or value == math.huge or value == -math.huge then
    return '"' .. tostring(value) .. '"'
  elseif value == math.floor(value) and math.abs(value) < 2 ^ 53 then
    return ("%.0f"):format(value)
  end
  return ("%.14g"):format(value)
end

local function text(self, value)
  local over = #value - MAX_TEXT_BYTES
  if over > 0 then
    self.cut = true
    value = value:sub(1, MAX_TEXT_BYTES) .. "[" .. over .. " more bytes]"
  end
  return json.encode(value)
end

--- Numbers first, then texts; the rest in any order of its own.
local function before(left, right)
  local kind, other = type(left), type(right)
  if kind ~= other then
    return kind < other
  elseif kind == "number" or kind == "string" then
    return left < right
  end
  return false
end

--- A key as text. One that is neither text nor number may be a table with a `__tostring` of the program's.
local function key_text(key)
  local kind = type(key)
  return (kind == "string" or kind == "number" or kind == "boolean") and tostring(key) or "[" .. kind .. "]"
end

--- The keys in order, and whether they are those of a list.
local function keys_of(value)
  local keys, size = {}, rawlen(value)
  for key in next, value do
    keys[#keys + 1] = key
  end
  table.sort(keys, before)
  return keys, size > 0 and size == #keys and keys[1] == 1 and keys[size] == size
end

local write

local function add(self, piece)
  self.out[#self.out + 1] = piece
  self.size, self.count = self.size + #piece, self.count + 1
end

local function write_table(self, value, depth)
  if self.open[value] then
    return add(self, '"[the same table again]"')
  elseif depth > MAX_DEPTH then
    self.cut = true
    return add(self, '"[a table, too deep to show]"')
  end
  self.open[value] = true
  local keys, is_list = keys_of(value)
  self.out[#self.out + 1] = is_list and "[" or "{"
  for index, key in ipairs(keys) do
    if index > 1 then
      self.out[#self.out + 1] = ","
    end
    if self.size >= MAX_BYTES or self.count >= MAX_VALUES then
      self.cut = true
      local more = '"[' .. (#keys - index + 1) .. ' more]"'
      self.out[#self.out + 1] = is_list and more or '"[cut]":' .. more
      break
    elseif not is_list then
      add(self, text(self, key_text(key)) .. ":")
    end
    write(self, value[key], depth + 1)
  end
  self.out[#self.out + 1] = is_list and "]" or "}"
  self.open[value] = nil
end

function write(self, value, depth)
  local kind = type(value)
  if kind == "table" then
    write_table(self, value, depth)
  elseif kind == "string" then
    add(self, text(self, value))
  elseif kind == "number" then
    add(self, number(value))
  else
    local is_plain = value == nil or kind == "boolean"
    add(self, is_plain and (value == nil and "null" or tostring(value)) or '"[' .. kind .. ']"')
  end
end

--- A JSON list of values, and whether something of them was cut.
-- @tparam table list
-- @tparam number first its first entry
-- @tparam number last its last, which may be nil
function values.encode(list, first, last)
  local self = { out = {}, size = 0, count = 0, open = {} }
  for index = first, last do
    self.out[#self.out + 1] = index > first and "," or nil
    write(self, list[index], 1)
  end
  return "[" .. table.concat(self.out) .. "]", self.cut == true
end

--- Takes `json.NULL` and the marks of lists out of a value that was read.
local function plain(value)
  if value == json.NULL then
    return nil
  elseif type(value) ~= "table" then
    return value
  end
  setmetatable(value, nil)
  for key, entry in pairs(value) do
    value[key] = plain(entry)
  end
  return value
end

--- The values of a JSON list, packed; nil and what is wrong with it.
function values.decode(bytes)
  local list, what = json.decode(bytes, true)
  if not json.is_array(list) then
    return nil, what or "it is something else"
  end
  local packed = { n = #list }
  for index = 1, #list do
    packed[index] = plain(list[index])
  end
  return packed
end

return values
