--- The method peripheral_call: one method of what stands beside the computer or hangs on its network.
--
-- It is called as a program of one line, so that it may wait for the world, is bounded in time and can
-- be told to end like any other.
-- @module peripherals

local answers = require("answers")
local failure = require("failure")
local params = require("params")
local programs = require("programs")
local values = require("values")

local peripherals = {}

local PROGRAM = "peripheral call"
local CODES = { error = "peripheral_error" }

--- Raises unless the peripheral is there and has the method.
local function check(name, method)
  local ok, methods = pcall(peripheral and peripheral.getMethods or error, name)
  if not ok or not methods then
    failure.raise("no_such_peripheral", "There is no peripheral of this name.")
  end
  for _, known in ipairs(methods) do
    if known == method then
      return
    end
  end
  failure.raise("no_such_method", "The peripheral has no method of this name.")
end

local function arguments_of(body, has_body)
  local list, what = values.decode(has_body and body or "[]")
  if not list then
    params.bad("The body must be a JSON list: " .. what .. ".")
  end
  return list
end

local function call(given, list, job)
  check(given.name, given.method)
  local result = programs.run({
    id = job.call_id,
    path = PROGRAM,
    bytes = "return peripheral.call(...)",
    arguments = table.pack(given.name, given.method, table.unpack(list, 1, list.n)),
    timeout_s = given.timeout_s,
  }, job.next_event)
  if result.ended ~= "returned" then
    local message = result.message:gsub("^/" .. PROGRAM .. ":%d+: ", "")
    return { ok = false, code = CODES[result.ended] or result.ended, message = message, data = {} }
  end
  local body, cut = values.encode(result.values, 1, result.values.n)
  return answers.done({ count = result.values.n, cut = cut }, body)
end

function peripherals.peripheral_call(given, body, has_body, job)
  params.check(given, { "name", "method", "timeout_s" })
  local list = arguments_of(body, has_body)
  return answers.after_start(function()
    return programs.announced(job.call_id, function()
      return call(given, list, job)
    end)
  end)
end

return peripherals
