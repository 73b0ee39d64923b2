--- The global `http`: requests, checks, and the answers as handles to read from. Nil where HTTP is off.
-- @module web

local kernel = ...
local host, expect = kernel.host, kernel.expect

if not host.http_on() then
  return
end

http = {}

--- Names and values as one text, each ended by NUL but the last.
function kernel.header_text(headers)
  local words = {}
  for name, value in pairs(headers or {}) do
    if type(name) == "string" and type(value) == "string" then
      words[#words + 1] = name .. "\0" .. value
    end
  end
  return table.concat(words, "\0")
end

--- Refuses a timeout that the mod refuses.
function kernel.timeout_of(value)
  if value ~= nil and type(value) ~= "number" then
    error("bad field 'timeout' (number expected, got " .. type(value) .. ")", 3)
  elseif value and not (value >= 0 and value <= 60) then
    error("timeout out of range (" .. tostring(value) .. ")", 3)
  end
  return value or 30
end

-- Answers -----------------------------------------------------------------------------------------

local function reading(handle, body, binary)
  local position = 1
  local function open()
    if not body then
      error("attempt to use a closed file", 3)
    end
  end
  function handle.read(count)
    open()
    if position > #body then
      return nil
    end
    local piece = body:sub(position, position + (count or 1) - 1)
    position = position + #piece
    return binary and not count and piece:byte() or piece
  end
  function handle.readAll()
    open()
    local rest = body:sub(position)
    position = #body + 1
    return rest
  end
  function handle.readLine(with_end)
    open()
    if position > #body then
      return nil
    end
    local line, ending = body:match("^([^\n]*)(\n?)", position)
    position = position + #line + #ending
    return with_end and line .. ending or (ending == "\n" and line:gsub("\r$", "") or line)
  end
  function handle.seek(whence, offset)
    open()
    local from = ({ set = 0, cur = position - 1, ["end"] = #body })[whence or "cur"]
    position = from + (offset or 0) + 1
    return position - 1
  end
  function handle.close()
    open()
    body = nil
  end
end

--- Before 1.109 the body of an answer was text, unless it was asked for as bytes.
local BODIES_ARE_BYTES = host.at_least(1, 109)

local function answer_of(code, reason, headers, body, binary)
  if not binary and not BODIES_ARE_BYTES then
    body = host.from_text(body)
  end
  local handle, list = setmetatable({}, kernel.object), {}
  for name, value in string.gmatch(headers, "([^%z]*)%z([^%z]*)%z") do
    list[name] = value
  end
  reading(handle, body, binary)
  function handle.getResponseCode()
    return code, reason
  end
  function handle.getResponseHeaders()
    return list
  end
  return handle
end

kernel.arrivals = {}

kernel.arrivals["\0http_success"] = function(url, _, ...)
  return "http_success", url, answer_of(...)
end

kernel.arrivals["\0http_failure"] = function(url, why, ...)
  return "http_failure", url, why, answer_of(...)
end

-- Requests ----------------------------------------------------------------------------------------

local function field(options, name, wanted, needed)
  local value = options[name]
  if type(value) ~= wanted and (needed or value ~= nil) then
    error(("bad field '%s' (%s expected, got %s)"):format(name, wanted, type(value)), 4)
  end
  return value
end

local function check_options(options)
  field(options, "url", "string", true)
  field(options, "body", "string")
  field(options, "headers", "table")
  field(options, "method", "string")
  field(options, "redirect", "boolean")
  return options
end

local METHODS = "GET POST PUT DELETE PATCH HEAD OPTIONS TRACE"

--- Begins a request; true, or false and a sentence.
local function begin(options)
  local method = (options.method or (options.body and "POST" or "GET")):upper()
  if not (" " .. METHODS .. " "):find(" " .. method .. " ", 1, true) then
    error("Unsupported HTTP method", 3)
  end
  local redirect, binary = options.redirect ~= false, options.binary == true
  local timeout_s = kernel.timeout_of(options.timeout)
  local headers = kernel.header_text(options.headers)
  local ok, why = host.http_request(options.url, method, headers, options.body, redirect, binary, timeout_s)
  if ok == nil then
    error(why, 3)
  end
  return ok, why
end

local function wait_for(options)
  local ok, why = begin(options)
  while ok do
    local name, url, value, failing = os.pullEvent()
    if name == "http_success" and url == options.url then
      return value
    elseif name == "http_failure" and url == options.url then
      return nil, value, failing
    end
  end
  return nil, why
end

function http.get(url, headers, binary)
  if type(url) == "table" then
    return wait_for(check_options(url))
  end
  expect(1, url, "string")
  expect(2, headers, "table", "nil")
  expect(3, binary, "boolean", "nil")
  return wait_for({ url = url, headers = headers, binary = binary })
end

function http.post(url, body, headers, binary)
  if type(url) == "table" then
    return wait_for(check_options(url))
  end
  expect(1, url, "string")
  expect(2, body, "string")
  expect(3, headers, "table", "nil")
  expect(4, binary, "boolean", "nil")
  return wait_for({ url = url, body = body, headers = headers, binary = binary })
end

function http.request(url, body, headers, binary)
  local options = { url = url, body = body, headers = headers, binary = binary }
  if type(url) == "table" then
    options = check_options(url)
  else
    expect(1, url, "string")
    expect(2, body, "string", "nil")
    expect(3, headers, "table", "nil")
    expect(4, binary, "boolean", "nil")
  end
  local ok, why = begin(options)
  if not ok then
    os.queueEvent("http_failure", options.url, why)
  end
  return ok, why
end

-- Checks ------------------------------------------------------------------------------------------

function http.checkURLAsync(url)
  expect(1, url, "string")
  return host.http_check(url)
end

function http.checkURL(url)
  expect(1, url, "string")
  local ok, why = host.http_check(url)
  while ok do
    local _, checked, fine, sentence = os.pullEvent("http_check")
    if checked == url then
      return fine, sentence
    end
  end
  return ok, why
end
