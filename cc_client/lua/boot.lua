--- Starts the client: with the computer, in a tab of its own or beside the shell, and again when it ends.
--
-- A program of its own, /.cc-orchestrator/boot.lua, that the installer writes and no update touches,
-- so that a client which does not run can be taken back. What the client returns says what comes next:
-- "restart" (another one may be in the pointer now), "stopped" (for good), "failed" and a sentence
-- (try again later). An error, and whatever happens to a client on trial before its first welcome,
-- leads back to the one before.
-- @module boot

local disk = require("disk")
local slots = require("slots")
local trial = require("trial")

local boot = {}

local SELF = "/" .. disk.OWN .. "/boot.lua"
local TITLE = "orchestrator"
local COMMAND = "/" .. disk.OWN .. "/cc.lua"
--- The events by which `cc` and the client talk, see command.lua.
local ASK, TOLD = "cc_orchestrator_ask", "cc_orchestrator_told"
--- How often a client on trial is started: a server that is away once should not cost it.
local MAX_TRIES = 2
local FIRST_DELAY_S, LAST_DELAY_S = 5, 60
--- A client that ran for this long was well.
local WELL_MS = 60000
--- A shell that ends at once so often will not do better.
local MAX_SHELL_FAILURES, AT_ONCE_S = 3, 0.2

-- Choosing ----------------------------------------------------------------------------------------

--- Back to the other slot, if there is a client in it; what did not run is remembered.
local function roll_back(pointer)
  local other = slots.other(pointer.slot)
  if not slots.text(other) then
    return nil
  end
  local back = { slot = other, state = "good", tries = 0, hash = "-", bad = pointer.bad }
  if pointer.state == "trial" and not slots.is_bad(pointer, pointer.hash) then
    back.bad[#back.bad + 1] = pointer.hash
  end
  slots.write(back)
  return back
end

--- Without a pointer: whichever slot has a client.
local function any_slot()
  for _, slot in ipairs({ "a", "b" }) do
    if slots.text(slot) then
      return { slot = slot, state = "good", tries = 0, hash = "-", bad = {} }
    end
  end
end

--- Which slot to run, and its text; nil when there is no client. A trial is counted.
-- @tparam table given_up sha256 = true of those that failed since this started, should the disk be full
local function choose(given_up)
  local pointer = slots.read() or any_slot()
  if not pointer then
    return nil
  end
  local on_trial = pointer.state == "trial"
  if on_trial and (pointer.tries >= MAX_TRIES or given_up[pointer.hash]) or not slots.text(pointer.slot) then
    pointer = roll_back(pointer) or pointer
  end
  if pointer.state == "trial" then
    pointer.tries = pointer.tries + 1
    slots.write(pointer)
  end
  return pointer, slots.text(pointer.slot)
end

-- Running -----------------------------------------------------------------------------------------

local function run_slot(pointer, text, host)
  local chunk = load(text, "@/" .. slots.path(pointer.slot), "t", _ENV)
  local handler = debug and debug.traceback or tostring
  host.slot = pointer.slot
  local function run()
    return xpcall(chunk, handler, "--boot", host)
  end
  local ok, what, why
  if pointer.state == "trial" then
    ok, what, why = trial.run(pointer, run)
  else
    ok, what, why = run()
  end
  if not ok then
    return "failed", tostring(what)
  end
  return what, why
end

--- Waits for the next try without minding Ctrl-T; who asks by `cc` hears why no client runs.
-- @treturn boolean whether the client was told to end
local function wait(seconds, why)
  local timer = os.startTimer(seconds)
  while true do
    local name, first, verb = os.pullEventRaw()
    if name == ASK then
      local what = why:match("^(.-)\nstack traceback:") or why
      os.queueEvent(TOLD, first, "The client cannot run now, and tries again by itself: " .. what, true)
    end
    if name == ASK and verb == "-quit" then
      return true
    elseif name == "timer" and first == timer or name == ASK and verb == "-restart" then
      return false
    end
  end
end

--- Whether the pointer still has this client on trial.
local function is_on_trial(slot)
  local pointer = slots.read()
  return pointer ~= nil and pointer.slot == slot and pointer.state == "trial" and pointer.hash
end

--- Runs the client for as long as the computer is on, or until it has stopped for good.
-- @treturn ?boolean true when it was told to
local function run_client(quiet)
  local say = quiet and function() end or print
  local host, given_up, delay_s, said = { quiet = quiet }, {}, FIRST_DELAY_S, nil
  while true do
    local pointer, text = choose(given_up)
    if not text then
      return say("There is no whole client on this computer: run the installer again.")
    end
    local began_ms = os.epoch("utc")
    local what, why = run_slot(pointer, text, host)
    if what == "stopped" then
      say(why or "The client has stopped.")
      return host.is_told
    end
    host.failure = what ~= "restart" and tostring(why) or nil
    if host.failure then
      if why ~= said then
        said = why
        say(host.failure)
      end
      local hash = is_on_trial(pointer.slot)
      if hash and slots.text(slots.other(pointer.slot)) then
        given_up[hash] = true
      else
        delay_s = os.epoch("utc") - began_ms > WELL_MS and FIRST_DELAY_S or delay_s
        if wait(delay_s, host.failure) then
          return true
        end
        delay_s = math.min(LAST_DELAY_S, 2 * delay_s)
      end
    end
  end
end

-- Beside the player -------------------------------------------------------------------------------

local function has_tabs()
  return multishell ~= nil and shell.openTab ~= nil
end

--- Lays a window over the terminal, so that the client can read what the player sees: a tab and a screen
-- cannot be read. The client finds it by the one global that it has.
-- @treturn boolean whether there is one that was not there before
local function lay_window()
  if _G.cc_orchestrator or not window or not window.create then
    return false
  end
  local parent = term.current()
  local width, height = parent.getSize()
  local view = window.create(parent, 1, 1, width, height, true)
  term.redirect(view)
  _G.cc_orchestrator = { screen = view, parent = parent }
  return true
end

--- Takes the window away once nobody looks at it any more.
local function lift_window()
  local shared = _G.cc_orchestrator
  if shared then
    term.redirect(shared.parent)
    _G.cc_orchestrator = nil
  end
end

--- Opens the tab; false where there are none.
local function open_tab()
  if not has_tabs() then
    return false
  end
  local ok, id = pcall(shell.openTab, SELF)
  if not ok or not id then
    return false
  end
  pcall(multishell.setTitle, id, TITLE)
  return true
end

--- When the player's last tab has ended, opens another: without ours the game would switch the computer
-- off, and with it nothing would be left to type at.
local function keep_a_shell()
  while true do
    os.pullEventRaw()
    if multishell.getCount() == 1 then
      local ok, id = pcall(shell.openTab, "shell")
      if ok and id then
        pcall(multishell.setFocus, id)
      end
    end
  end
end

--- A tab that nobody has looked at stays when its program ends, and waits for a key.
local function be_seen()
  local seen = multishell.getFocus()
  multishell.setFocus(multishell.getCurrent())
  multishell.setFocus(seen)
end

--- Runs the client beside something else, which goes on without it.
local function beside(front)
  parallel.waitForAny(function()
    pcall(run_client, true)
    while true do
      os.pullEventRaw()
    end
  end, front)
end

--- The player's shell until they leave it; Ctrl-T in it only starts it anew.
local function run_shell()
  local failures = 0
  repeat
    local began_s = os.clock()
    local left = shell.run("shell")
    failures = os.clock() - began_s > AT_ONCE_S and 0 or failures + 1
  until left or failures >= MAX_SHELL_FAILURES
end

--- Types the word `cc` for the player, unless it means something already.
local function set_alias()
  local meant = shell.resolveProgram("cc")
  if not meant or "/" .. fs.combine("", meant) == COMMAND then
    shell.setAlias("cc", COMMAND)
  end
end

--- The files of /startup/ that come after ours; all of them when ours is elsewhere.
local function rest_of_directory(ours)
  local list = {}
  local names = fs.isDir("/startup") and fs.list("/startup") or {}
  table.sort(names)
  for _, name in ipairs(names) do
    local path = "/startup/" .. name
    if not fs.isDir(path) and (ours:find("^/startup/") == nil or path > ours) then
      list[#list + 1] = path
    end
  end
  return list
end

local function run_all(programs)
  for _, path in ipairs(programs) do
    if fs.exists(path) and not fs.isDir(path) then
      shell.run(path)
    end
  end
end

--- Called by the startup file at `ours`; `own` is the player's program that it stands in for.
local function start_up(ours, own)
  set_alias()
  lay_window()
  local function front()
    run_all({ own })
    run_all(rest_of_directory(ours))
    run_shell()
  end
  if open_tab() then
    front()
  else
    beside(front)
  end
  -- As the game does when its shell ends, and no other tab is open.
  if has_tabs() and multishell.getCount() > 2 then
    return shell.exit()
  end
  os.shutdown()
end

--- Starts the client now, from a shell. The player goes on in a shell over which a window lies, as after a boot.
-- @tparam ?table said sentences that have just been printed, for a screen that is emptied by this
local function start(said)
  set_alias()
  local is_new = lay_window()
  if is_new then
    for _, sentence in ipairs(said or {}) do
      print(sentence)
    end
  end
  local has_tab = open_tab()
  if not has_tab then
    beside(run_shell)
  elseif is_new then
    run_shell()
  end
  if is_new then
    lift_window()
  end
  if not has_tab then
    print("The client ran beside the shell that you left: `cc start` starts it again.")
  end
end

--- @tparam ?string mode nil: the client, here; "--startup", "--start"
function boot.run(mode, ...)
  if mode == "--startup" then
    return start_up(...)
  elseif mode == "--start" then
    return start(...)
  end
  if multishell then
    pcall(multishell.setTitle, multishell.getCurrent(), TITLE)
  end
  if not has_tabs() or multishell.getCount() == 1 then
    return run_client()
  end
  local is_told
  parallel.waitForAny(function()
    is_told = run_client()
  end, keep_a_shell)
  if is_told then
    pcall(be_seen)
  end
end

return boot
