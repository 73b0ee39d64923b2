--- The program behind the player's `cc`: asks the client, which runs elsewhere on this computer.
--
-- A program of its own, /.cc-orchestrator/cc.lua. What it does not do itself it asks by events, see
-- command.lua, and prints what comes back. It starts and uninstalls a client by itself, because that
-- has to work also where no client runs.
-- @module cc

local disk = require("disk")
local installed = require("installed")
local pager = require("pager")
local review = require("review")
local shown = require("shown")
local diagnosis = require("why")

local cc = {}

local ASK, TOLD, LEFT = "cc_orchestrator_ask", "cc_orchestrator_told", "cc_orchestrator_left"
local ANSWER_WITHIN_S = 2
local OWN = "/" .. disk.OWN

--- Whether the player wants to leave: Ctrl-T, or the key q.
local function is_leaving(event)
  return event[1] == "terminate" or event[1] == "char" and event[2]:lower() == "q"
end

--- Tells an answer. The last one may be longer than the screen, and nothing comes after it.
local function tell_answer(tell, text, is_last, kind)
  if is_last then
    pager.run(function()
      tell(text, kind)
    end)
  else
    tell(text, kind)
  end
end

--- Asks the client and tells each answer until the last. False: no client answered in time; the second
--- answer says whether the player left before.
local function ask(tell, ...)
  local nonce = ("%.0f.%d"):format(os.epoch("utc"), math.random(1000000))
  local heard, timer = false, os.startTimer(ANSWER_WITHIN_S)
  os.queueEvent(ASK, nonce, ...)
  while true do
    local event = table.pack(os.pullEventRaw())
    if event[1] == TOLD and event[2] == nonce then
      heard = true
      if event[3] ~= "" then
        tell_answer(tell, event[3], event[4], event[5])
      end
      if event[4] then
        return true, false
      end
    elseif event[1] == "timer" and event[2] == timer and not heard then
      return false
    elseif is_leaving(event) then
      os.queueEvent(LEFT, nonce)
      return true, true
    end
  end
end

local function silent() end

local function start()
  if ask(silent, "status") then
    return print("The client runs already.")
  end
  local boot, why = loadfile(OWN .. "/boot.lua", nil, _ENV)
  if not boot then
    return printError("The client cannot be started: " .. tostring(why) .. ". Run the installer again.")
  end
  boot("--start")
end

-- Uninstalling ------------------------------------------------------------------------------------

--- The client's directories on this computer and on the disks that are in its drives.
local function directories()
  local list = { OWN }
  for _, name in ipairs(fs.list("/")) do
    local path = "/" .. name .. OWN
    if fs.isDir(path) and not fs.isReadOnly(path) and fs.getDrive(path) ~= fs.getDrive("/") then
      list[#list + 1] = path
    end
  end
  return list
end

--- What a call whose outcome is unknown moved aside: a person may want these bytes.
local function kept_files(directory)
  local kept, swap = {}, directory .. "/swap"
  for _, name in ipairs(fs.isDir(swap) and fs.list(swap) or {}) do
    kept[#kept + 1] = name:find("%.old$") and swap .. "/" .. name or nil
  end
  return kept
end

local function delete(path, sentences)
  local ok, why = disk.try(fs.delete, path)
  if not ok then
    sentences[#sentences + 1] = ("%s cannot be deleted: %s."):format(path, why)
  end
end

--- What an uninstall needs that is cut short and typed again: deleted last.
local NEEDED = { ["boot.lua"] = true, ["cc.lua"] = true, ["installed"] = true, ["installed.new"] = true }

--- Deletes what is in one of our directories, but for what is kept and needed.
-- @treturn boolean whether something is kept
local function empty_directory(directory, sentences)
  local kept = kept_files(directory)
  for _, path in ipairs(kept) do
    sentences[#sentences + 1] = path .. " is left: nobody knows whether a change that used it was made."
  end
  for _, name in ipairs(fs.isDir(directory) and fs.list(directory) or {}) do
    local path = directory .. "/" .. name
    local is_needed = directory == OWN and NEEDED[name]
    if not is_needed and (#kept == 0 or name ~= "swap") then
      delete(path, sentences)
    end
  end
  for _, name in ipairs(#kept > 0 and fs.list(directory .. "/swap") or {}) do
    if not name:find("%.old$") then
      delete(directory .. "/swap/" .. name, sentences)
    end
  end
  return #kept > 0
end

--- The name that the server has for this computer, or what stands for it.
local function name_here()
  local text = disk.read(OWN .. "/connection") or disk.read(OWN .. "/connection.new") or ""
  local name = text:match("^[^\n]*\n[^\n]*\n[^\n]*\n([^\n]+)")
  return name or "NAME"
end

--- Takes everything away, in an order in which it can be cut short at any change: as long as our startup
-- file is there, so is what it starts, and with that the word `cc`; `cc.lua` is the last to go.
local function uninstall()
  print(("If this is cut short, type `cc uninstall` again, or `%s/cc.lua uninstall`."):format(OWN))
  ask(silent, "-quit")
  local sentences, name, is_kept = {}, name_here(), {}
  for _, directory in ipairs(directories()) do
    is_kept[directory] = empty_directory(directory, sentences)
    if directory ~= OWN and not is_kept[directory] then
      delete(directory, sentences)
    end
  end
  for _, sentence in ipairs(installed.undo(installed.read())) do
    sentences[#sentences + 1] = sentence
  end
  for _, file in ipairs({ "boot.lua", "installed.new", "installed" }) do
    delete(OWN .. "/" .. file, sentences)
  end
  delete(is_kept[OWN] and OWN .. "/cc.lua" or OWN, sentences)
  shell.clearAlias("cc")
  _G.cc_orchestrator = nil
  for _, sentence in ipairs(sentences) do
    print(sentence)
  end
  local last =
    "The client is gone from this computer. Its token is worth something until you type on the server:"
  print(last)
  print("cc-orchestrator token revoke computer " .. name)
end

-- The command -------------------------------------------------------------------------------------

local OWN_VERBS = { start = start, uninstall = uninstall, review = review.run }

--- @tparam ?string verb what to do; nil: help
function cc.run(verb, ...)
  verb = verb or "help"
  if OWN_VERBS[verb] then
    return OWN_VERBS[verb](...)
  end
  local answered, has_left = ask(shown.tell, verb, ...)
  shown.finish(has_left)
  if not answered then
    local fault = diagnosis.here()
    if fault then
      return printError(diagnosis.text(fault))
    end
    printError("The client does not answer: start it with `cc start`, or restart the computer.")
  end
end

return cc
