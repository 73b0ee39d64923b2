--- Installs the client on this computer, or brings it up to date: `wget run SERVER/install [CODE]`.
--
-- A program of its own: the bundler puts it and the modules that it needs into one file, and the
-- server fills in its address and what it knows of its client. The code is used up only when the client
-- is on the disk. Whatever goes wrong, or if the power goes, the same line can be typed again.
-- @module install

local disk = require("disk")
local installed = require("installed")
local programs = require("installer_programs")
local sha256 = require("sha256")
local slots = require("slots")
local startups = require("startups")
local why = require("why")

local install = {
  SERVER = "@SERVER@",
  CLIENT = { size = tonumber("@CLIENT_BYTES@"), sha256 = "@CLIENT_SHA256@", version = "@CLIENT_VERSION@" },
}

--- What the client keeps beside itself: two journal slots, and room to change a small file safely.
local SPARE_BYTES = 32768
local BIGGEST = 3
--- The game cuts a longer label.
local MAX_LABEL_BYTES = 32
local OWN = "/" .. disk.OWN
local BOOT, CONNECTION = disk.OWN .. "/boot.lua", disk.OWN .. "/connection"
local ANSWER_WITHIN_S = 2

--- What was printed. Without tabs the client begins with an empty screen, and boot.lua says it again.
local said = {}

local function say(sentence)
  said[#said + 1] = sentence
  print(sentence)
end

--- Ends the installation; `wget run` prints the sentence.
local function fail(sentence, ...)
  error(sentence:format(...), 0)
end

--- Ends it with a reason and the lines that fix it.
local function fail_with(fault)
  fail("%s", why.text(fault))
end

local function must(ok, problem, path)
  if not ok then
    fail(
      "Cannot write %s: %s. Make room or mend the disk, then type the line again.",
      path,
      tostring(problem)
    )
  end
end

-- What has to be there ----------------------------------------------------------------------------

--- `{url, token, name}` of an earlier installation, or nil.
local function read_connection()
  local text = disk.read(CONNECTION) or disk.read(CONNECTION .. ".new")
  local url, token, name = (text or ""):match("^[^\n]*\n(wss?://%S+)\n(%S+)\n([^\n]*)")
  return url and { url = url, token = token, name = name }
end

local function check_computer(code, known)
  local major, minor = tostring(_HOST):match("ComputerCraft (%d+)%.(%d+)")
  major, minor = tonumber(major), tonumber(minor)
  if major and (major < 1 or major == 1 and minor < 95) then
    fail("The client needs CC: Tweaked 1.95 or newer, and this is %s: update the mod.", _HOST)
  end
  local fault = why.here()
  if fault then
    fail_with(fault)
  elseif code == "" and not known then
    fail(
      "The code is missing: run `wget run %s/install CODE` with the code from `cc-orchestrator pair`.",
      install.SERVER
    )
  end
end

--- Every file of the player's on this disk, `{path, size}`.
local function all_files(directory, list)
  for _, name in ipairs(fs.list(directory)) do
    local path = (directory == "/" and "/" or directory .. "/") .. name
    if path ~= OWN and fs.getDrive(path) == fs.getDrive("/") then
      if fs.isDir(path) then
        all_files(path, list)
      else
        list[#list + 1] = { path = path, size = fs.getSize(path) }
      end
    end
  end
  return list
end

--- The biggest files as text.
local function biggest()
  local list, texts = all_files("/", {}), {}
  table.sort(list, function(left, right)
    return left.size > right.size
  end)
  for index = 1, math.min(BIGGEST, #list) do
    texts[index] = ("%s (%d bytes)"):format(list[index].path, list[index].size)
  end
  return #texts > 0 and " The biggest are " .. table.concat(texts, ", ") .. "." or ""
end

--- @tparam number reclaimed bytes of a file that will be written over
local function check_room(reclaimed)
  local free = disk.free_bytes("/") + reclaimed
  local needed = install.CLIENT.size + #programs.boot + #programs.cc + SPARE_BYTES
  if free < needed then
    local sentence =
      "The disk of this computer is too full: delete files of %d bytes, then type the line again.%s"
    fail(sentence, needed - free, biggest())
  end
end

-- Talking -----------------------------------------------------------------------------------------

--- JSON as a table, or nil.
local function table_of(text)
  local ok, value = pcall(textutils.unserializeJSON, text or "")
  return ok and type(value) == "table" and value or nil
end

--- What the server said was wrong, or nil when it is not ours that answered.
local function refusal(response)
  local told = table_of(response.readAll())
  response.close()
  local wrong = told and told.error
  if type(wrong) == "table" and type(wrong.message) == "string" then
    return why.refused(install.SERVER, wrong)
  end
end

--- The body of an answer; `response, problem, refused` is what the http functions return.
local function body_of(response, problem, refused)
  if refused then
    fail_with(refusal(refused) or why.told("not_ours", install.SERVER))
  elseif not response then
    fail_with(why.failed(install.SERVER, problem))
  end
  local body = response.readAll() or ""
  response.close()
  return body
end

--- The sha256, with pauses: where the game is busy, that of a client takes longer than the game allows.
local function hash(text)
  local slices = 0
  return sha256.hex(text, function()
    slices = slices + 1
    -- A pause takes a tick of the game.
    if slices % 4 == 0 then
      sleep(0)
    end
  end)
end

local function download()
  local text = body_of(http.get(install.SERVER .. "/client.lua", nil, true))
  if #text ~= install.CLIENT.size or hash(text) ~= install.CLIENT.sha256 or not slots.is_whole(text) then
    fail("The client did not arrive whole from %s: type the line again.", install.SERVER)
  end
  return text
end

--- Whether an earlier installation was for this very server, which may then see its token again.
local function is_known_here(known)
  return known and known.url == install.SERVER:gsub("^http", "ws") .. "/computer"
end

--- What the server says of a code that an installation has used which was cut short, maybe this one.
local SPENT = { code_used = true, code_expired = true }

--- Turns the code into this computer's token: `{computer, token, url, label}`; nil and a reason when the
-- code is spent and there is a token of this server.
local function pair(code, known)
  local label = (os.getComputerLabel()) or ""
  local request = textutils.serializeJSON({
    code = code,
    computer_id = os.getComputerID(),
    label = label:gsub("[^\32-\126]", "?"):sub(1, 64),
    token = is_known_here(known) and known.token or nil,
  })
  local headers = { ["Content-Type"] = "application/json" }
  local response, problem, refused = http.post(install.SERVER .. "/v1/pair", request, headers)
  local fault = refused and (refusal(refused) or why.told("not_ours", install.SERVER))
  if fault and SPENT[fault.code] and is_known_here(known) then
    return nil, fault
  elseif fault then
    fail_with(fault)
  end
  local answer = table_of(body_of(response, problem))
  if not answer or type(answer.token) ~= "string" or type(answer.url) ~= "string" then
    fail_with(why.told("not_ours", install.SERVER))
  end
  return answer
end

--- Tells a client that runs something that is for programs. False: none runs.
local function tell_client(...)
  local nonce = ("%.0f"):format(os.epoch("utc"))
  local timer = os.startTimer(ANSWER_WITHIN_S)
  os.queueEvent("cc_orchestrator_ask", nonce, ...)
  while true do
    local name, first = os.pullEvent()
    if name == "cc_orchestrator_told" and first == nonce then
      return true
    elseif name == "timer" and first == timer then
      return false
    end
  end
end

-- Writing -----------------------------------------------------------------------------------------

--- Writes a whole file unless it is there already.
local function put(path, bytes)
  if disk.read(path) ~= bytes then
    local ok, problem = disk.replace(path, bytes)
    must(ok, problem, "/" .. path)
  end
end

--- Puts the client into the slot that does not run; what runs goes on.
local function put_client()
  local pointer = slots.read()
  local wanted = install.CLIENT.sha256
  for _, slot in ipairs({ "a", "b" }) do
    local text = slots.text(slot)
    if text and #text == install.CLIENT.size and hash(text) == wanted then
      return pointer, slot
    end
  end
  local slot = pointer and slots.other(pointer.slot) or slots.text("a") and "b" or "a"
  local path = slots.path(slot)
  check_room(#(disk.read(path) or ""))
  local text = download()
  local ok, problem = disk.write(path, text)
  if not ok or disk.read(path) ~= text then
    disk.try(fs.delete, path)
    must(false, problem, "/" .. path)
  end
  return pointer, slot
end

--- Lets the pointer name a slot; false when it does already.
local function point_at(pointer, slot)
  if pointer and pointer.slot == slot and not slots.is_bad(pointer, install.CLIENT.sha256) then
    return false
  end
  local ok, problem = slots.write(slots.flipped(pointer, slot, install.CLIENT.sha256))
  must(ok, problem, OWN .. "/slot")
  return true
end

--- Whether a pairing made this the same computer as before.
local function is_same(known, pairing)
  return known and known.url == pairing.url and (known.name == "" or known.name == pairing.computer)
end

local function write_connection(pairing)
  local head =
    "-- cc-orchestrator: the server's URL, this computer's token, its name and its key. Keep it secret."
  local lines = { head, pairing.url, pairing.token, pairing.computer }
  if type(pairing.update_key) == "string" and pairing.update_key:find("^%x+$") then
    lines[#lines + 1] = pairing.update_key
  end
  put(CONNECTION, table.concat(lines, "\n") .. "\n")
end

--- Gives the label of the pairing to a computer that has none.
local function put_label(label)
  if type(label) ~= "string" or label == "" or (os.getComputerLabel()) then
    return
  elseif #label > MAX_LABEL_BYTES or label:find("[^ -~]") then
    say(
      "The label of the code does not fit, so none was set. Up to 32 ASCII signs do: type `label set NAME`."
    )
  else
    local record = installed.read()
    installed.add(record, "label " .. label)
    local ok, problem = installed.write(record)
    must(ok, problem, OWN .. "/installed")
    os.setComputerLabel(label)
  end
end

local function put_startup()
  local ok, place = pcall(startups.put)
  must(ok, place, "the startup file")
  if place.sentence then
    say(place.sentence)
  end
  if place.move then
    say(("Your %s is now %s, and still starts with the computer."):format(place.path, place.move))
  end
  if settings.get("shell.allow_startup") == false then
    say("To start the client with the computer, type `set shell.allow_startup true`.")
  end
  for _, one in ipairs(startups.on_disks()) do
    local sentence = "The disk in the drive %s (/%s) has a startup file, and the game starts that instead of the"
      .. " client: take the disk out, or type `set shell.allow_disk_startup false`."
    say(sentence:format(one.drive, one.mount))
  end
end

-- Starting ----------------------------------------------------------------------------------------

local function start_client()
  local boot = assert(loadfile("/" .. BOOT, nil, _ENV))
  boot("--start", said)
end

--- What keeps the socket from opening that the client will use, or nil; a proxy may let only pages through.
local function socket_fault(connection)
  local called, socket, problem = pcall(
    http.websocket,
    ("%s?n=%.0f"):format(connection.url, os.epoch("utc")),
    { Authorization = "Bearer " .. connection.token }
  )
  if called and socket then
    pcall(socket.close)
  else
    return why.failed(connection.url, called and problem or socket)
  end
end

--- Joins with a code: the name here, and whether a client that runs goes on with it.
local function join(code, known)
  local pairing, spent = pair(code, known)
  if not pairing then
    print(spent.sentence .. " The computer goes on with the token that it has.")
    return known.name, true
  end
  local same = is_same(known, pairing)
  if not same then
    -- A new computer begins a new journal: the numbers in the old one are another's.
    if known then
      tell_client("-quit")
    end
    disk.try(fs.delete, disk.OWN .. "/journal.a")
    disk.try(fs.delete, disk.OWN .. "/journal.b")
  end
  write_connection(pairing)
  put_label(pairing.label)
  return pairing.computer, same
end

--- Puts everything but the startup file in its place: the name here, whether a client that runs goes on
-- with it, and whether it is another client than before.
local function bring(code, known)
  local pointer, slot = put_client()
  put(BOOT, programs.boot)
  put(disk.OWN .. "/cc.lua", programs.cc)
  local is_new = point_at(pointer, slot)
  if code == "" then
    return known.name, true, is_new
  end
  local name, same = join(code, known)
  return name, same, is_new
end

--- Like `bring`; of a first installation that fails before it has its token nothing stays on the disk.
local function bring_or_clear(code, known)
  local ok, name, same, is_new = pcall(bring, code, known)
  if ok then
    return name, same, is_new
  end
  if not read_connection() and not fs.exists(disk.OWN .. "/installed") then
    disk.try(fs.delete, disk.OWN)
  end
  error(name, 0)
end

--- @tparam ?string ... the code, as typed
function install.run(...)
  said = {}
  local code, known = table.concat({ ... }, ""), read_connection()
  check_computer(code, known)
  local name, same, is_new = bring_or_clear(code, known)
  put_startup()
  -- With a new token the old connection is worth nothing, so the client need not wait.
  local now = code ~= "" and "now" or nil
  local runs = same and tell_client((is_new or now) and "-restart" or "status", now)
  local sentence = "This is computer %s of %s, with client %s. `cc help` says what you can do here."
  say(sentence:format(name == "" and os.getComputerID() or name, install.SERVER, install.CLIENT.version))
  local fault = code ~= "" and socket_fault(read_connection())
  if fault then
    say("It cannot connect yet. " .. why.text(fault))
  end
  if not runs then
    start_client()
  end
end

return install
