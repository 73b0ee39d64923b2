--- The player's desk: what `cc ask`, `watch`, `tasks`, `answer`, `stop` and `undo` want of the orchestrator.
--
-- A request has an id of its own, by which the orchestrator knows an `ask` or `undo` that comes again:
-- that begins no second task. A follower of a task hears of it over every reconnect, from where it was
-- told last. Nothing is sent while nobody waits. All verbs are functions of a request of command.lua;
-- what is told has a kind, see shown.lua. docs/protocol.md section 1.7 is the specification.
-- @module desk

local json = require("json")
local nonce = require("nonce")
local sha256 = require("sha256")
local status = require("status")

local desk = {}

--- What the orchestrator says without being asked.
local NEWS = "news"
--- Longer than a reboot of the orchestrator takes to be noticed; a player waits no longer anyway.
local CONNECT_WITHIN_MS = 20000
local ANSWER_WITHIN_MS = 10000
--- A frame that the computer dropped is made up for after so long.
local LOST_AFTER_MS = 60000
local MAX_BYTES = 4096
--- A number means a task of a list for so long after the list was shown.
local LISTED_FOR_MS = 600000
--- Of a question in `cc status` and in the log.
local MAX_LINE = 200
--- Faults that pass when the server is back; see why.lua.
local PASSING =
  { no_answer = true, no_answer_here = true, no_answer_tls = true, no_upgrade = true, timed_out = true }
--- Between two lines that travel together.
local BETWEEN = "\30"

--- The steps of `cc review`; what comes back is for that program. A review that nobody goes on with is over.
local REVIEW_STEPS = { review = true, review_page = true, review_decide = true, review_end = true }
local REVIEWED_FOR_MS = 300000
local reviewed_until_ms = 0

--- Desk id = `{request, verb, task, text, state, since_ms, version}`; state is `waiting` (for a
-- connection), `asked` or `following`.
local open = {}
--- The session that is welcome; nil: none. Whether its orchestrator knows no desk.
local session, is_old

-- Sending -----------------------------------------------------------------------------------------

local function move(item, state)
  item.state, item.since_ms = state, os.epoch("utc")
end

local function send(id, item)
  local text = item.verb ~= "leave" and item.text or nil
  local header = { type = "desk", desk = id, verb = item.verb, task = item.task, after = item.version }
  session:send(header, text, text and sha256.hex(text))
end

local function finish(id, text, kind)
  local item = open[id]
  open[id] = nil
  item.request.tell(text, true, kind)
end

local function too_old(id)
  finish(id, "This orchestrator is older than this client and takes no tasks here: update it.", "bad")
end

--- Whether it is known already why there is no connection. What was sent, or is followed, goes on waiting
-- where the server is only away.
local function is_hopeless(item)
  local code = status.get("fault_code")
  local passes = code == "ended" or (item.sent and PASSING[code])
  return code ~= nil and not passes
end

local function say_fault(id)
  local fault = (status.get("fault") or "no answer yet"):gsub("%.$", "")
  local item = open[id]
  local what = item.sent and "What was begun goes on, `cc tasks` shows it" or "Nothing was asked"
  finish(id, ("Not connected: %s. %s; `cc status` says more."):format(fault, what), "bad")
end

local function ask_or_wait(id, item)
  if not session and is_hopeless(item) then
    say_fault(id)
  elseif not session then
    move(item, "waiting")
    item.request.tell("not connected; waiting for it", false, "doing")
  elseif is_old then
    too_old(id)
  else
    move(item, "asked")
    item.sent = true
    item.request.tell("asking", false, "doing")
    send(id, item)
  end
end

local function leave(id)
  local item = open[id]
  open[id] = nil
  if session and not is_old and item and item.state ~= "waiting" then
    send(id, { verb = "leave" })
  end
end

--- @tparam ?string only a field of a row: the others are not shown
local function begin(request, verb, task, text, only)
  if text and #text > MAX_BYTES then
    local sentence = "That has %d bytes; %d are the most. Write it into a file and name the file."
    return request.tell(sentence:format(#text, MAX_BYTES), true, "bad")
  end
  local id = nonce.name()
  open[id] = { request = request, verb = verb, task = task, text = text, only = only }
  request.left = function()
    leave(id)
  end
  ask_or_wait(id, open[id])
end

-- Verbs -------------------------------------------------------------------------------------------

--- The id of a task as typed, with or without its first letters; nil: it is none.
local function task_of(word)
  return word and word:match("^t%-%x+$")
end

--- The numbered lists that were shown last: of open tasks, and of questions where several wait.
-- Each is `{tasks, at_ms}`: a number means what stood there, whatever has changed since.
local shown_list, shown_questions

local function listed(rows)
  local tasks = {}
  for index, row in ipairs(rows) do
    tasks[index] = row.task
  end
  return { tasks = tasks, at_ms = os.epoch("utc") }
end

--- Whether a word is a number of a list that was shown not long ago; the task that stood there, nil: none did.
local function picked(word, list)
  local is_number = word ~= nil and list ~= nil and word:match("^%d%d?$") ~= nil
  if not is_number or os.epoch("utc") - list.at_ms > LISTED_FOR_MS then
    return false
  end
  return true, list.tasks[tonumber(word)]
end

desk.VERBS = {}

function desk.VERBS.ask(request)
  local text = table.concat(request.words, " ")
  if text == "" then
    return request.tell('Say what to do: cc ask "fix my farm program"', true, "bad")
  end
  begin(request, "ask", nil, text)
end

function desk.VERBS.answer(request)
  local words = request.words
  local is_number, task = picked(words[1], shown_questions)
  if not is_number then
    task = task_of(words[1])
  elseif not task then
    return request.tell("There is no number " .. words[1] .. " in the list: type `cc answer`.", true, "bad")
  end
  local text = table.concat(words, " ", task and 2 or 1)
  if text == "" and task then
    return request.tell(("Type the answer: cc answer %s TEXT"):format(words[1]), true, "bad")
  elseif text == "" then
    return begin(request, "tasks", nil, nil, "question")
  end
  shown_questions = nil
  begin(request, "answer", task, text)
end

--- A verb that takes at most the id of a task.
local function of_task(verb)
  return function(request)
    local word = request.words[1]
    local is_number, task = picked(word, shown_list)
    if not is_number then
      task = task_of(word) or task_of(word and "t-" .. word)
    end
    if word and not task then
      return request.tell(word .. " is no task: `cc tasks` lists them.", true, "bad")
    end
    begin(request, verb, task)
  end
end

desk.VERBS.watch, desk.VERBS.stop, desk.VERBS.undo = of_task("watch"), of_task("stop"), of_task("undo")

function desk.VERBS.tasks(request)
  begin(request, "tasks")
end

--- The program `cc` of an earlier installer knows no review and asks the client for it.
function desk.VERBS.review(request)
  request.tell("This `cc` is older than the client: run the installer again.", true, "bad")
end

desk.VERBS["-review"] = function(request)
  local step, body = request.words[1], request.words[2]
  reviewed_until_ms = step == "review_end" and 0 or os.epoch("utc") + REVIEWED_FOR_MS
  begin(request, step, nil, body)
end

--- Whether somebody reviews here: nobody may type from outside then, as if they were that person.
function desk.is_reviewed()
  return os.epoch("utc") < reviewed_until_ms
end

--- For `cc help`.
desk.HELP = {
  { "ask TEXT", "begins a task for this computer and shows its steps" },
  { "watch [TASK]", "shows the steps of a task again" },
  { "tasks", "what is open here, and what it waits for" },
  { "answer [TASK] TEXT", "answers the question of a task; alone it shows what is asked" },
  { "stop [TASK]", "stops a task" },
  { "undo [TASK]", "puts back what a task changed here" },
  { "review [NAME]", "shows what you may decide; `on MONITOR` shows it there" },
}

-- What the orchestrator says ----------------------------------------------------------------------

--- What stands for an answer: a number picks a choice.
local function answer_of(row)
  return row.options and "NUMBER or TEXT" or "TEXT"
end

--- On one line; `cc tasks` shows all of a long one.
local function question(row)
  local text = row.question:gsub("%s*\n%s*", " / ")
  text = #text > MAX_LINE and text:sub(1, MAX_LINE) .. " ..." or text
  return ("task %s asks: %s - answer with: cc answer %s %s"):format(row.task, text, row.task, answer_of(row))
end

--- Task = the line about its question: what waits here, as it was told last.
local asks = {}

--- Lets `cc status` name the questions of a list; the lines that are new.
local function remember(rows)
  local before, lines, fresh = asks, {}, {}
  asks = {}
  for _, row in ipairs(rows) do
    if row.question then
      local line = question(row)
      asks[row.task], lines[#lines + 1] = line, line
      fresh[#fresh + 1] = before[row.task] ~= line and line or nil
    end
  end
  status.set("asks", #lines > 0 and table.concat(lines, "\n") or nil)
  return fresh
end

--- The question of a task is answered: the others stay.
local function forget(task)
  asks[task] = nil
  local lines = {}
  for _, line in pairs(asks) do
    lines[#lines + 1] = line
  end
  table.sort(lines)
  status.set("asks", #lines > 0 and table.concat(lines, "\n") or nil)
end

--- Lines as one text: an event each would fill the computer's queue.
local function together(lines)
  local parts = {}
  for index, line in ipairs(lines) do
    parts[index] = tostring(line.is) .. ":" .. tostring(line.text)
  end
  return table.concat(parts, BETWEEN)
end

local function having(rows, field)
  local found = {}
  for _, row in ipairs(rows) do
    found[#found + 1] = row[field] and row or nil
  end
  return found
end

local function list_of(rows, only)
  local lines = {}
  for index, row in ipairs(rows) do
    local number = #rows > 1 and index .. ". " or ""
    lines[#lines + 1] = { is = "tool", text = ("%s%s %s, %s"):format(number, row.task, row.status, row.why) }
    lines[#lines + 1] = { is = "out", text = row.prompt }
    if row.question then
      lines[#lines + 1] = { is = "ask", text = row.question }
      lines[#lines + 1] =
        { is = "note", text = ("cc answer %s %s answers."):format(row.task, answer_of(row)) }
    end
  end
  if #rows > 1 then
    local how = only and "cc answer 2 TEXT answers the second." or "cc watch 2 and cc stop 2 mean the second."
    lines[#lines + 1] = { is = "note", text = how }
  end
  if #lines == 0 then
    lines[1] = { is = "note", text = only and "Nothing is asked here." or "Nothing is open here." }
  end
  return lines
end

local SHOWN = {}

local function followed(id, item, message, lines)
  if not item.task_shown then
    item.task_shown = true
    item.request.tell(message.task or "", false, "task")
  end
  -- Asked again, it is this task that is followed.
  item.verb, item.text, item.task = "watch", nil, message.task
  item.version = message.version
  move(item, "following")
  if #lines > 0 then
    item.request.tell(together(lines), false, "lines")
  end
  if message.done then
    finish(id, "")
  end
end

SHOWN.ask, SHOWN.watch, SHOWN.undo = followed, followed, followed

function SHOWN.tasks(id, item, _, rows)
  remember(rows)
  if item.only then
    rows = having(rows, item.only)
    shown_questions = #rows > 1 and listed(rows) or nil
  else
    shown_list = listed(rows)
  end
  finish(id, together(list_of(rows, item.only)), "lines")
end

for step in pairs(REVIEW_STEPS) do
  SHOWN[step] = function(id, _, _, _, body)
    finish(id, body, "review")
  end
end

function SHOWN.stop(id, _, message, lines)
  table.insert(lines, 1, { is = "good", text = "Stopped: " .. tostring(message.task) .. "." })
  finish(id, together(lines), "lines")
end

function SHOWN.answer(id, _, message)
  forget(tostring(message.task))
  finish(id, ("Answered. `cc watch %s` shows what it does with it."):format(tostring(message.task)), "good")
end

--- The list in a body; nil when it is none.
local function read_list(message, body)
  if not message.body then
    return {}
  elseif sha256.hex(body) ~= message.body.sha256 then
    return nil
  end
  local list = json.decode(body)
  return type(list) == "table" and list or nil
end

local function news(log, rows)
  for _, line in ipairs(remember(rows)) do
    log("cc-orchestrator: " .. line)
  end
end

--- A message `told`; what nobody waits for any more is left.
function desk.told(message, body, log)
  local list, id = read_list(message, body), message.desk
  local item = open[id]
  if not list then
    return
  elseif id == NEWS then
    news(log, list)
    if not message.ok then
      status.set("asks", message.message)
    end
  elseif not item then
    if not message.done and session then
      send(id, { verb = "leave" })
    end
  elseif not message.ok then
    if #list > 0 and item.verb == "answer" then
      shown_questions = listed(list)
    elseif #list > 0 then
      shown_list = listed(list)
    end
    local kind = REVIEW_STEPS[item.verb] and message.code and "refused " .. message.code or "bad"
    finish(id, message.message or message.code or "The orchestrator refused it.", kind)
  else
    SHOWN[item.verb](id, item, message, list, body)
  end
end

--- The orchestrator complains: one that knows no desk cannot say it better.
function desk.complained(message)
  if message.code ~= "bad_frame" or not message.message:find("desk", 1, true) then
    return
  end
  is_old = true
  for id, item in pairs(open) do
    if item.state == "asked" then
      too_old(id)
    end
  end
end

-- The connection ----------------------------------------------------------------------------------

--- A session was welcomed: who waits is asked for.
function desk.connected(welcomed)
  session, is_old = welcomed, false
  status.set("fault_code", nil)
  for id, item in pairs(open) do
    ask_or_wait(id, item)
  end
end

--- What changes something is not sent twice; the rest is sent again after a reconnect.
function desk.disconnected(ended)
  if session ~= ended then
    return
  end
  session, reviewed_until_ms = nil, 0
  for id, item in pairs(open) do
    local is_step = REVIEW_STEPS[item.verb]
    if item.verb == "stop" or item.verb == "answer" or is_step then
      local shows = is_step and "`cc review` shows what still waits."
        or "`cc tasks` shows whether it was done."
      finish(id, "The connection was lost before the answer came: " .. shows, "bad")
    else
      item.follows = item.state == "following"
      ask_or_wait(id, item)
    end
  end
end

local LATE = {
  ask = "The task may have begun all the same: `cc tasks` shows it; asking again begins another.",
  undo = "It may have begun all the same: `cc tasks` shows it.",
  stop = "It may be stopped all the same: `cc tasks` shows it.",
  answer = "It may have arrived all the same: `cc tasks` shows it.",
}

--- This client ends: waiting callers hear it.
function desk.close()
  reviewed_until_ms = 0
  for id, item in pairs(open) do
    local what = item.version and "the task goes on, `cc watch` shows it again."
      or "try again, or `cc start`."
    finish(id, "This client ends here; " .. what, "note")
  end
end

--- Whether a player waits for something.
function desk.is_busy()
  return next(open) ~= nil
end

--- Called about once a second while it is busy.
function desk.tick()
  local now = os.epoch("utc")
  for id, item in pairs(open) do
    local waited_ms = now - item.since_ms
    local is_late = not item.follows and waited_ms > CONNECT_WITHIN_MS
    if item.state == "waiting" and (is_late or is_hopeless(item)) then
      say_fault(id)
    elseif item.state == "asked" and waited_ms > ANSWER_WITHIN_MS then
      local what = LATE[item.verb] or "Try again."
      finish(id, ("No answer within %d s. %s"):format(ANSWER_WITHIN_MS / 1000, what), "bad")
    elseif item.state == "following" and session and waited_ms > LOST_AFTER_MS then
      item.since_ms = now
      send(id, item)
    end
  end
end

return desk
