--- Installs the cc-orchestrator client on this computer: `wget run SERVER/install CODE`.
--
-- The server fills in its address and the size of its client. The code is used up only when the
-- client is on the disk; whatever goes wrong before that can simply be tried again. Runs on the
-- ROM of CC: Tweaked 1.95 and newer alone.
-- @script install

local SERVER = "@SERVER@"
local CLIENT_BYTES = tonumber("@CLIENT_BYTES@")
local CLIENT_BEGINS = "-- The cc-orchestrator client"
--- What the client keeps beside itself: two journal slots, and room to change a small file safely.
local SPARE_BYTES = 32768

local OWN = "/.cc-orchestrator"
local CLIENT, CONNECTION = OWN .. "/client.lua", OWN .. "/connection"
local RUN_CLIENT = CLIENT .. " --beside-shell"
--- Last of its directory: what runs beside the shell ends only with the computer.
local STARTUP = "/startup/zz-cc-orchestrator.lua"

local code = table.concat({ ... }, "")

--- Ends the installation; `wget run` prints the sentence.
local function fail(sentence, ...)
  error(sentence:format(...), 0)
end

-- What has to be there ----------------------------------------------------------------------------

local function check_computer()
  local major, minor = tostring(_HOST):match("ComputerCraft (%d+)%.(%d+)")
  major, minor = tonumber(major), tonumber(minor)
  if major and (major < 1 or major == 1 and minor < 95) then
    fail("The client needs CC: Tweaked 1.95 or newer, and this is %s: update the mod.", _HOST)
  elseif not http or not http.websocketAsync then
    fail("HTTP or its WebSockets are off here: turn both on in computercraft-server.toml, then try again.")
  elseif code == "" then
    fail(
      "The code is missing: run `wget run %s/install CODE` with the code from `cc-orchestrator pair`.",
      SERVER
    )
  end
  local free = fs.getFreeSpace("/")
  if type(free) == "number" and free < CLIENT_BYTES + SPARE_BYTES then
    local needed = CLIENT_BYTES + SPARE_BYTES - free
    fail("The disk of this computer is too full: delete files of %d bytes, then try again.", needed)
  end
end

-- Talking to the server ---------------------------------------------------------------------------

--- What the server said was wrong, or nil when it said nothing that can be read.
local function refusal(response)
  if not response then
    return nil
  end
  local text = response.readAll()
  response.close()
  local ok, told = pcall(textutils.unserializeJSON, text or "")
  local wrong = ok and type(told) == "table" and told.error
  if type(wrong) == "table" and type(wrong.message) == "string" then
    return (wrong.message .. " " .. tostring(wrong.remedy or "")):gsub("%s+$", "")
  end
end

--- The body of an answer; `response, why, refused` is what the http functions return.
local function body_of(response, why, refused)
  if not response then
    local said = refusal(refused)
    fail("%s", said or ("No answer from %s (%s): is the server running?"):format(SERVER, tostring(why)))
  end
  local body = response.readAll() or ""
  response.close()
  return body
end

local function download()
  local text = body_of(http.get(SERVER .. "/client.lua", nil, true))
  local whole = #text == CLIENT_BYTES and text:sub(1, #CLIENT_BEGINS) == CLIENT_BEGINS
  if not whole or not load(text, "=client", "t", {}) then
    fail("The client did not arrive whole from %s: try again.", SERVER)
  end
  return text
end

--- Turns the code into this computer's token: `{computer, token, url, label}`.
local function pair()
  local label = (os.getComputerLabel()) or ""
  local request = textutils.serializeJSON({
    code = code,
    computer_id = os.getComputerID(),
    label = label:gsub("[^\32-\126]", "?"):sub(1, 64),
  })
  local headers = { ["Content-Type"] = "application/json" }
  local answer = textutils.unserializeJSON(body_of(http.post(SERVER .. "/v1/pair", request, headers)))
  if type(answer) ~= "table" or type(answer.token) ~= "string" or type(answer.url) ~= "string" then
    fail("%s answered something that is no pairing: is it cc-orchestrator?", SERVER)
  end
  return answer
end

-- Writing -----------------------------------------------------------------------------------------

--- Writes a whole file beside its place, then moves it there.
local function replace(path, bytes)
  local ok, why = pcall(function()
    local temporary = path .. ".new"
    local handle, cannot = fs.open(temporary, "wb")
    if not handle then
      error(cannot or "it cannot be opened", 0)
    end
    handle.write(bytes)
    handle.close()
    if fs.getSize(temporary) ~= #bytes then
      error("not all of it was written", 0)
    end
    fs.delete(path)
    fs.move(temporary, path)
  end)
  if not ok then
    fail("Cannot write %s: %s. Make room or mend the disk, then try again.", path, tostring(why))
  end
end

local function write_connection(pairing)
  local head = "-- cc-orchestrator: the server's URL and this computer's token. Keep it secret."
  replace(CONNECTION, table.concat({ head, pairing.url, pairing.token, "" }, "\n"))
end

--- Lets the client start with the computer; what starts already is left as it is.
local function write_startup()
  if fs.exists("/startup") and not fs.isDir("/startup") then
    local line = ('shell.run("%s")'):format(RUN_CLIENT)
    return print("To start the client with the computer, add this as the last line of /startup: " .. line)
  end
  local comment =
    "-- Starts the cc-orchestrator client beside the shell. Without this file it does not start.\n"
  replace(STARTUP, comment .. ('shell.run("%s")\n'):format(RUN_CLIENT))
  if fs.exists("/startup.lua") then
    print("/startup.lua is left as it is: the client starts when that has ended.")
  end
  if settings.get("shell.allow_startup") == false then
    print("To start the client with the computer, type `set shell.allow_startup true`.")
  end
end

check_computer()
replace(CLIENT, download())
local pairing = pair()
write_connection(pairing)
write_startup()
if type(pairing.label) == "string" and pairing.label ~= "" and not (os.getComputerLabel()) then
  os.setComputerLabel(pairing.label)
end
print(("This is computer %s of %s. The client runs beside this shell."):format(pairing.computer, SERVER))
shell.run(RUN_CLIENT)
