--- Says why no connection stands, and the exact lines that fix it.
--
-- Pure: what the mod, or the server, said goes in; `{code, sentence, remedy = {lines}}` comes out. The
-- sentences are those of orchestrator/core/connection_problems.py, and tests/golden/why.json holds both to the
-- same words. They fit a turtle's screen of 39 columns and 13 rows.
-- @module why

local why = {}

--- Where the orchestrator speaks http without TLS, unless told otherwise.
local USUAL_PORT = "8765"
local PORTS = { http = "80", https = "443", ws = "80", wss = "443" }
local LOOPBACK = { localhost = true, ["::1"] = true }
local FILE = "computercraft-server.toml"
local FOLDER = "the folder serverconfig of the world"
local SET = "Set in " .. FILE .. ", which is in " .. FOLDER .. " (new versions: config):"
local RULE = "Put into " .. FILE .. " (" .. FOLDER .. ', or config), before the rule for "$private":'
local RESTART = "Then restart the Minecraft server."
local PLAIN =
  "cc-orchestrator serve --host 0.0.0.0 --insecure-bind --port {plain} --public-url http://ADDRESS:{plain}"
local NEW_LINE = "Then type a new line of `cc-orchestrator pair`."
local NEW_CODE = "Make a new one with `cc-orchestrator pair` and type its line here."
local INSTALL = "wget run {server}/install"

--- Code = the sentence, then the lines that fix it.
local TROUBLES = {
  http_off = { "HTTP is turned off on the Minecraft server.", SET, "[http]", "enabled = true", RESTART },
  websockets_off = {
    "WebSockets are turned off on the Minecraft server.",
    SET,
    "[http]",
    "websocket_enabled = true",
    RESTART,
  },
  not_permitted = {
    "The Minecraft server does not permit computers to reach {host}.",
    RULE,
    "[[http.rules]]",
    'host = "{host}"',
    "port = {port}",
    'action = "allow"',
    RESTART,
  },
  unknown_host = {
    "The Minecraft server knows no host {host}.",
    "Give the orchestrator an address that it knows, such as its IP, on a network that you trust:",
    PLAIN,
    NEW_LINE,
  },
  no_answer = {
    "Nothing answers at {host}, port {port}.",
    "Start it there, for a network that you trust:",
    "cc-orchestrator serve --host 0.0.0.0 --insecure-bind --port {port} --public-url {server}",
    "Let port {port} through its firewall.",
  },
  no_answer_tls = {
    "Nothing answers at {host}, port {port}.",
    "Start the proxy there that has the certificate, and behind it:",
    "cc-orchestrator serve --public-url {server}",
    "Let port {port} through its firewall.",
  },
  no_answer_here = {
    "Nothing answers at port {port} of the machine on which the Minecraft server runs.",
    "Start it there:",
    "cc-orchestrator serve --port {port}",
    "If it runs on another machine, `cc-orchestrator doctor` there says what to do.",
  },
  timed_out = {
    "{host}, port {port}, did not answer in time.",
    "Let port {port} through the firewall of {host}.",
    "If the address is wrong, type a new line of `cc-orchestrator pair`.",
  },
  tls = {
    "The Minecraft server does not trust the certificate of {host}.",
    "Give it one that Java trusts, or use http on a network that you trust:",
    PLAIN,
    NEW_LINE,
  },
  code_used = { "This pairing code was used already.", NEW_CODE },
  code_expired = { "This pairing code is older than 15 minutes.", NEW_CODE },
  code_unknown = { "This pairing code is not known here.", NEW_CODE },
  protocol_too_old = { "{said}", "{remedy}", INSTALL },
  protocol_too_new = { "{said}", "{remedy}", "Or get its older client:", INSTALL },
  mod_too_old = { "{said}", "{remedy}" },
  frozen = { "{said}", "{remedy}" },
  token_refused = {
    "The orchestrator at {host} does not know this computer: its token was revoked, or is another server's.",
    "Pair it again: type a new line of `cc-orchestrator pair`.",
  },
  not_ours = {
    "What answers at {host}, port {port}, is not cc-orchestrator.",
    "If the address is wrong, type a new line of `cc-orchestrator pair`.",
  },
  busy = {
    "The orchestrator at {host} lets other computers in first.",
    "It is dialled again by itself.",
  },
  stopping = {
    "The orchestrator at {host} stops or starts just now.",
    "It is dialled again by itself.",
  },
  no_upgrade = {
    "{host}, port {port}, takes no WebSocket ({said}).",
    "Let the proxy in between pass WebSockets on.",
  },
  bad_address = {
    "{server} is no address ({said}).",
    "Type the line exactly as `cc-orchestrator pair` prints it.",
  },
  too_many = {
    "This computer has too many connections open.",
    "End the programs that have them, or restart it: hold Ctrl-R.",
  },
  ended = { "The connection ended: {said}.", "It is dialled again by itself." },
  unknown = {
    "The connection failed: {said}.",
    "`cc-orchestrator doctor`, on the orchestrator's machine, says what it sees.",
  },
}

--- What the mod says (in small letters), and what it means; the first that fits counts.
local SAID = {
  { "websocket connections are disabled", "websockets_off" },
  { "domain not permitted", "not_permitted" },
  { "unknown host", "unknown_host" },
  { "timed out", "timed_out" },
  { "secure connection", "tls" },
  { "certificate", "tls" },
  { "already open", "too_many" },
  { "too many ongoing", "too_many" },
  { "url malformed", "bad_address" },
  { "invalid scheme", "bad_address" },
  { "invalid protocol", "bad_address" },
  { "must specify http", "bad_address" },
  { "invalid subprotocol", "not_ours" },
  { "could not connect", "no_answer" },
  { "connection refused", "no_answer" },
}

local MAX_SAID = 400

--- Text of somebody else: one line, printable and short.
local function plain(text)
  return (tostring(text):gsub("[^\32-\126]+", " "):sub(1, MAX_SAID):gsub("%s+$", ""))
end

local function places(url)
  local scheme, rest = url:match("^(%a+)://([^/?#]*)")
  scheme, rest = scheme or "http", rest or url
  local host, port = rest:match("^%[([%x:.]+)%]:?(%d*)$")
  if not host then
    host, port = rest:match("^([^:]*):?(%d*)$")
  end
  port = port ~= "" and port or PORTS[scheme] or ""
  local is_tls = scheme == "https" or scheme == "wss"
  return {
    host = host or rest,
    port = port,
    plain = is_tls and USUAL_PORT or port,
    is_tls = is_tls,
    server = scheme:gsub("^ws", "http") .. "://" .. rest,
  }
end

--- A reason in words.
-- @tparam string code
-- @tparam ?string url the server's
-- @tparam ?string said what the mod or the server said
-- @tparam ?string remedy what the server said that fixes it
function why.told(code, url, said, remedy)
  local words = places(url or "")
  if code == "no_answer" and (LOOPBACK[words.host] or words.host:find("^127%.")) then
    code = "no_answer_here"
  elseif code == "no_answer" and words.is_tls then
    code = "no_answer_tls"
  end
  words.said, words.remedy = plain(said or ""), plain(remedy or "")
  local lines = {}
  for _, text in ipairs(TROUBLES[code]) do
    if text ~= "{remedy}" or words.remedy ~= "" then
      lines[#lines + 1] = text:gsub("{(%l+)}", words)
    end
  end
  return { code = code, sentence = table.remove(lines, 1), remedy = lines }
end

--- What keeps every connection from this computer, as far as can be known without dialling; or nil.
function why.here()
  if not http then
    return why.told("http_off")
  elseif not http.websocketAsync then
    return why.told("websockets_off")
  end
  -- It is refused before the address is looked at, and this one is none.
  local called, said = pcall(http.websocketAsync, "ws://")
  if not called and tostring(said):lower():find("disabled", 1, true) then
    return why.told("websockets_off")
  end
end

--- What the mod said when a connection failed.
function why.failed(url, said)
  said = plain(said or "no answer")
  local small = said:lower()
  for _, entry in ipairs(SAID) do
    if small:find(entry[1], 1, true) then
      return why.told(entry[2], url, said)
    end
  end
  local status = tonumber(small:match("status%D*(%d%d%d)"))
  if status == 401 or status == 403 then
    return why.told("token_refused", url, said)
  elseif status == 404 then
    return why.told("not_ours", url, said)
  elseif status == 503 then
    return why.told(why.again_s(said) and "busy" or "stopping", url, said)
  elseif status then
    return why.told("no_upgrade", url, "it answers " .. status)
  end
  return why.told("unknown", url, said)
end

--- Seconds after which the server wants to be dialled again, as far as the mod tells of its refusal; or nil.
function why.again_s(said)
  return tonumber(tostring(said):match("retry after (%d%d?%d?) s"))
end

--- What the orchestrator itself said: `{code, message, remedy}`.
function why.refused(url, wrong)
  local message, remedy = plain(wrong.message), plain(wrong.remedy or "")
  if TROUBLES[wrong.code] then
    return why.told(wrong.code, url, message, remedy)
  end
  return { code = tostring(wrong.code), sentence = message, remedy = remedy ~= "" and { remedy } or {} }
end

--- A reason as the player reads it, one line below the other.
function why.text(fault)
  local lines = { fault.sentence }
  for _, line in ipairs(fault.remedy) do
    lines[#lines + 1] = line
  end
  return table.concat(lines, "\n")
end

return why
