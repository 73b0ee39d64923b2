--- Checks of arguments: `expect`, `field` and `range`. The module itself may be called as `expect`.
-- @module cc.expect

local expect = {}

local function names_of(...)
  local names = { ... }
  local last = table.remove(names)
  return #names > 0 and table.concat(names, ", ") .. " or " .. last or last
end

local function is_one_of(value, ...)
  for _, name in ipairs({ ... }) do
    if type(value) == name then
      return true
    end
  end
  return false
end

--- The value, when it is of one of the types; else an error in the caller's name.
function expect.expect(index, value, ...)
  if is_one_of(value, ...) then
    return value
  end
  local subject = type(index) == "number" and "#" .. index or tostring(index)
  error(("bad argument %s (%s expected, got %s)"):format(subject, names_of(...), type(value)), 3)
end

--- The field of a table, when it is of one of the types.
function expect.field(owner, key, ...)
  expect.expect(1, owner, "table")
  expect.expect(2, key, "string")
  local value = owner[key]
  if is_one_of(value, ...) then
    return value
  elseif value == nil then
    error(("field '%s' missing from table"):format(key), 3)
  end
  error(("bad field '%s' (%s expected, got %s)"):format(key, names_of(...), type(value)), 3)
end

--- The number, when it is in the range.
function expect.range(number, least, most)
  expect.expect(1, number, "number")
  least, most = least or -math.huge, most or math.huge
  if number ~= number or number < least or number > most then
    error(("number outside of range (expected %s to be within %s and %s)"):format(number, least, most), 3)
  end
  return number
end

return setmetatable(expect, {
  __call = function(_, ...)
    return expect.expect(...)
  end,
})
