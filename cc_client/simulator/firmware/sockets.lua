--- WebSockets, as part of `http`.
-- @module sockets

local kernel = ...
local host, native, expect = kernel.host, kernel.native, kernel.expect

if not http then
  kernel.arrivals = {}
  return
end

local function make_socket(id, url)
  local socket = setmetatable({}, kernel.object)
  local send, close = native("socket_send"), native("socket_close")
  function socket.send(message, binary)
    send(id, tostring(message), binary == true)
  end
  function socket.close()
    close(id)
  end
  function socket.receive(timeout)
    if not host.socket_open_now(id) then
      error("attempt to use a closed file", 2)
    end
    local timer = timeout and os.startTimer(timeout)
    while true do
      local name, first, message, binary = os.pullEvent()
      if name == "websocket_message" and first == url then
        return message, binary
      elseif name == "websocket_closed" and first == url or name == "timer" and first == timer then
        return nil
      end
    end
  end
  return socket
end

--- The host names sockets by number.
kernel.arrivals["\0websocket_success"] = function(url, id)
  return "websocket_success", url, make_socket(id, url)
end

local TAKES_TABLES = host.at_least(1, 105)

local function options_of(url, headers)
  if type(url) == "table" and TAKES_TABLES then
    if type(url.url) ~= "string" then
      error("bad field 'url' (string expected, got " .. type(url.url) .. ")", 3)
    end
    return url
  end
  expect(1, url, "string")
  expect(2, headers, "table", "nil")
  return { url = url, headers = headers }
end

--- Begins to dial; throws what the mod throws.
local function begin(options)
  local timeout_s = kernel.timeout_of(options.timeout)
  local ok, why = host.socket_open(options.url, kernel.header_text(options.headers), timeout_s)
  if ok == nil then
    error(why, 3)
  end
  return ok, why
end

function http.websocketAsync(url, headers)
  local options = options_of(url, headers)
  local ok, why = begin(options)
  if not ok then
    os.queueEvent("websocket_failure", options.url, why)
  end
  return ok, why
end

function http.websocket(url, headers)
  local options = options_of(url, headers)
  local ok, why = begin(options)
  while ok do
    local name, first, value = os.pullEvent()
    if name == "websocket_success" and first == options.url then
      return value
    elseif name == "websocket_failure" and first == options.url then
      return false, value
    end
  end
  return false, why
end
