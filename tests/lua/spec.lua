--- describe, it, expect: just enough to write a specification of the client.
-- @module spec

local spec = { passed = 0, failures = {} }

local names = {}

--- A group of examples.
function spec.describe(name, body)
  names[#names + 1] = name
  body()
  names[#names] = nil
end

--- One example; an error in it is a failure.
function spec.it(name, body)
  local ok, why = xpcall(body, function(message)
    return type(message) == "table" and tostring(message.message or message.code or "a table")
      or debug.traceback(message, 2)
  end)
  if ok then
    spec.passed = spec.passed + 1
  else
    spec.failures[#spec.failures + 1] = table.concat(names, " ") .. " " .. name .. "\n  " .. tostring(why)
  end
end

--- One example that hashes megabytes: only where the environment has CC_LONG is there time for it.
function spec.long(name, body)
  if os.getenv("CC_LONG") then
    spec.it(name, body)
  end
end

--- How far it is to the next case of a sweep: to the very next where the environment has CC_LONG.
function spec.step(otherwise)
  return os.getenv("CC_LONG") and 1 or otherwise
end

local function show(value)
  if type(value) ~= "table" then
    return type(value) == "string" and ("%q"):format(value) or tostring(value)
  end
  local parts = {}
  for key, item in pairs(value) do
    parts[#parts + 1] = tostring(key) .. "=" .. show(item)
  end
  table.sort(parts)
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function same(left, right)
  if type(left) ~= "table" or type(right) ~= "table" then
    return left == right
  end
  for key, item in pairs(left) do
    if not same(item, right[key]) then
      return false
    end
  end
  for key in pairs(right) do
    if left[key] == nil then
      return false
    end
  end
  return true
end

--- A value about which something is expected; tables are compared by content.
function spec.expect(value)
  local expectation = {}
  function expectation.to_be(wanted)
    if not same(value, wanted) then
      error("expected " .. show(wanted) .. ", got " .. show(value), 2)
    end
  end
  function expectation.to_contain(text)
    if type(value) ~= "string" or not value:find(text, 1, true) then
      error("expected something with " .. show(text) .. ", got " .. show(value), 2)
    end
  end
  return expectation
end

return spec
