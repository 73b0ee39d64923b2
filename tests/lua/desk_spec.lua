local client = require("client")
local command = require("command")
local computer = require("computer")
local desk = require("desk")
local json = require("json")
local sha256 = require("sha256")
local shown = require("shown")
local spec = require("spec")
local status = require("status")
local describe, it, expect = spec.describe, spec.it, spec.expect

--- What was told to one `cc`: `{text, is_last, kind}` each, in order.
local function told_to(machine, nonce)
  local told = {}
  for _, event in ipairs(machine.events) do
    if event[1] == "cc_orchestrator_told" and event[2] == nonce then
      told[#told + 1] = { event[3], event[4], event[5] }
    end
  end
  return told
end

local count = 0

--- Types a command; its nonce.
local function type_command(...)
  count = count + 1
  local nonce = "n" .. count
  command.event(table.pack("cc_orchestrator_ask", nonce, ...))
  return nonce
end

local function last(list)
  return list[#list]
end

local function welcomed()
  desk.close()
  local machine = computer.new()
  return client.boot(machine):welcome(5), machine
end

local function answer(here, id, fields, list)
  local header = { type = "told", desk = id, ok = true, done = false }
  for key, value in pairs(fields) do
    header[key] = value
  end
  here:receive(header, list and json.encode(json.array(list)))
end

describe("desk", function()
  it("asks with what was typed, and shows the steps until the end", function()
    local here, machine = welcomed()
    local nonce = type_command("ask", "fix", "my farm")
    local asked = here:last_of("desk")
    expect(asked.verb).to_be("ask")
    expect(asked.bytes).to_be("fix my farm")
    expect(asked.body.sha256).to_be(sha256.hex("fix my farm"))
    local lines = { { is = "say", text = "I look." }, { is = "tool", text = "cc_read farm" } }
    answer(here, asked.desk, { task = "t-0a1b", version = 4 }, lines)
    answer(
      here,
      asked.desk,
      { task = "t-0a1b", version = 9, done = true },
      { { is = "good", text = "Done" } }
    )
    expect(told_to(machine, nonce)).to_be({
      { "asking", false, "doing" },
      { "t-0a1b", false, "task" },
      { "say:I look.\30tool:cc_read farm", false, "lines" },
      { "good:Done", false, "lines" },
      { "", true },
    })
  end)

  it("tells at once what cannot be sent", function()
    local here, machine = welcomed()
    expect(told_to(machine, type_command("ask"))[1]).to_be({
      'Say what to do: cc ask "fix my farm program"',
      true,
      "bad",
    })
    expect(told_to(machine, type_command("answer", "t-0a"))[1][1]).to_contain("Type the answer")
    expect(told_to(machine, type_command("stop", "../x"))[1][1]).to_contain("is no task")
    expect(told_to(machine, type_command("ask", ("x"):rep(4097)))[1][1]).to_contain("4096 are the most")
    expect(here:count("desk")).to_be(0)
  end)

  it("knows a task from the words of an answer", function()
    local here = welcomed()
    type_command("answer", "t-0a1b", "the", "river")
    expect(here:last_of("desk").task).to_be("t-0a1b")
    expect(here:last_of("desk").bytes).to_be("the river")
    type_command("answer", "t-shirts")
    expect(here:last_of("desk").task).to_be(nil)
    type_command("stop", "0a1b")
    expect(here:last_of("desk").task).to_be("t-0a1b")
  end)

  it("lists what is open, and what is asked", function()
    local here, machine = welcomed()
    local nonce = type_command("tasks")
    local row =
      { task = "t-1", status = "Paused", why = "waiting for an answer", prompt = "fix", question = "Which?" }
    answer(here, here:last_of("desk").desk, { done = true }, { row })
    local list = last(told_to(machine, nonce))
    expect(list[2]).to_be(true)
    expect(list[1]).to_contain(
      "tool:t-1 Paused, waiting for an answer\30out:fix\30ask:Which?\30note:cc answer t-1 TEXT"
    )
    expect(status.get("asks")).to_contain("task t-1 asks: Which?")
    nonce = type_command("tasks")
    answer(here, here:last_of("desk").desk, { done = true }, {})
    expect(last(told_to(machine, nonce))[1]).to_contain("Nothing is open here.")
    expect(status.get("asks")).to_be(nil)
  end)

  it("shows the choices of a question below it, and a number as the answer", function()
    local here, machine = welcomed()
    local nonce = type_command("answer")
    expect(here:last_of("desk").verb).to_be("tasks")
    local asked = "Which?\n1. wheat\n2. cactus"
    local row =
      { task = "t-1", status = "Paused", why = "waits", prompt = "fix", question = asked, options = "2" }
    local other = { task = "t-2", status = "Running", why = "works", prompt = "dig" }
    answer(here, here:last_of("desk").desk, { done = true }, { other, row })
    expect(last(told_to(machine, nonce))[1]).to_be(
      "tool:t-1 Paused, waits\30out:fix\30ask:" .. asked .. "\30note:cc answer t-1 NUMBER or TEXT answers."
    )
    expect(status.get("asks")).to_be(
      "task t-1 asks: Which? / 1. wheat / 2. cactus - answer with: cc answer t-1 NUMBER or TEXT"
    )
    type_command("answer", "2")
    expect({ here:last_of("desk").task, here:last_of("desk").bytes }).to_be({ nil, "2" })
    nonce = type_command("answer")
    answer(here, here:last_of("desk").desk, { done = true }, { other })
    expect(last(told_to(machine, nonce))[1]).to_contain("Nothing is asked here.")
  end)

  it("means by a number the task that stood in the last list, for a while", function()
    local here, machine = welcomed()
    local rows = {}
    for index = 1, 3 do
      rows[index] = { task = "t-a" .. index, status = "Running", why = "works", prompt = "dig" }
    end
    local nonce = type_command("tasks")
    answer(here, here:last_of("desk").desk, { done = true }, rows)
    expect(last(told_to(machine, nonce))[1]).to_contain("tool:2. t-a2 Running, works")
    for _, verb in ipairs({ "stop", "watch", "undo" }) do
      type_command(verb, "2")
      expect({ here:last_of("desk").verb, here:last_of("desk").task }).to_be({ verb, "t-a2" })
    end
    expect(told_to(machine, type_command("stop", "4"))[1][1]).to_be("4 is no task: `cc tasks` lists them.")
    machine.now_ms = machine.now_ms + 600001
    type_command("stop", "2")
    expect(here:last_of("desk").task).to_be("t-2")
  end)

  it("lets a number pick where the orchestrator says that several tasks fit", function()
    local here, machine = welcomed()
    local several = { { task = "t-a1" }, { task = "t-a2" } }
    local refusal = { ok = false, done = true, message = "More than one task is open:\n1. t-a1\n2. t-a2" }
    local nonce = type_command("stop")
    answer(here, here:last_of("desk").desk, refusal, several)
    expect(last(told_to(machine, nonce))).to_be({ refusal.message, true, "bad" })
    type_command("stop", "1")
    expect(here:last_of("desk").task).to_be("t-a1")
    -- Of questions there is a list of their own: without it a number is the answer.
    type_command("answer", "2", "of", "them")
    expect({ here:last_of("desk").task, here:last_of("desk").bytes }).to_be({ nil, "2 of them" })
    answer(here, here:last_of("desk").desk, refusal, several)
    expect(told_to(machine, type_command("answer", "2"))[1][1]).to_be("Type the answer: cc answer 2 TEXT")
    expect(told_to(machine, type_command("answer", "3", "x"))[1][1]).to_contain("no number 3")
    type_command("answer", "2", "of", "them")
    expect({ here:last_of("desk").task, here:last_of("desk").bytes }).to_be({ "t-a2", "of them" })
    type_command("answer", "2", "of", "them")
    expect(here:last_of("desk").task).to_be(nil)
  end)

  it("shows a long question whole in the list, and its beginning in one line", function()
    local here, machine = welcomed()
    local nonce, question = type_command("tasks"), ("word "):rep(500)
    local row = { task = "t-1", status = "Paused", why = "waits", prompt = "fix", question = question }
    answer(here, here:last_of("desk").desk, { done = true }, { row })
    expect(last(told_to(machine, nonce))[1]).to_contain("ask:" .. question)
    expect(#status.get("asks") < 300).to_be(true)
    expect(status.get("asks")).to_contain("word  ... - answer with: cc answer t-1 TEXT")
  end)

  it("shows a refusal as it was said", function()
    local here, machine = welcomed()
    local nonce = type_command("stop")
    local message = "Nobody knows who paired this computer."
    answer(
      here,
      here:last_of("desk").desk,
      { ok = false, done = true, code = "forbidden", message = message }
    )
    expect(last(told_to(machine, nonce))).to_be({ message, true, "bad" })
  end)

  it("logs the questions that wait when it connects", function()
    local here = welcomed()
    answer(here, "news", { done = true }, { { task = "t-1", question = "Which?" } })
    expect(last(here.logged)).to_be(
      "cc-orchestrator: task t-1 asks: Which? - answer with: cc answer t-1 TEXT"
    )
    local nonce = type_command("status")
    expect(last(told_to(here.machine, nonce))[1]).to_contain("task t-1 asks: Which?")
  end)

  it("keeps the other questions when one is answered, and says why nobody is told any more", function()
    local here = welcomed()
    local rows = { { task = "t-1", question = "Which?" }, { task = "t-2", question = "Where?" } }
    answer(here, "news", { done = true }, rows)
    local logged = #here.logged
    answer(here, "news", { done = true }, rows)
    expect(#here.logged).to_be(logged)
    type_command("answer", "t-1", "this")
    answer(here, here:last_of("desk").desk, { done = true, task = "t-1" })
    expect(status.get("asks")).to_be("task t-2 asks: Where? - answer with: cc answer t-2 TEXT")
    answer(here, "news", { done = true, ok = false, message = "ann has no access any more." })
    expect(status.get("asks")).to_be("ann has no access any more.")
    answer(here, "news", { done = true }, {})
    expect(status.get("asks")).to_be(nil)
  end)

  it("says a known fault at once, and waits for a server that is only away", function()
    local here, machine = welcomed()
    local followed = type_command("watch", "t-1")
    answer(here, here:last_of("desk").desk, { task = "t-1", version = 1 }, {})
    here.session:finish("gone")
    status.set("fault", "Nothing answers.")
    status.set("fault_code", "no_answer")
    expect(last(told_to(machine, type_command("ask", "fix")))[1]).to_contain(
      "Not connected: Nothing answers."
    )
    desk.tick()
    expect(last(told_to(machine, followed))[2]).to_be(false)
    status.set("fault", "Its token was revoked.")
    status.set("fault_code", "token_refused")
    desk.tick()
    local told = last(told_to(machine, followed))
    expect(told[2]).to_be(true)
    expect(told[1]).to_contain("Its token was revoked. What was begun goes on")
    status.set("fault", nil)
    status.set("fault_code", nil)
  end)

  it("asks again by the same id when the connection comes back, and goes on where it was", function()
    local here = welcomed()
    type_command("ask", "fix")
    local first = here:last_of("desk")
    here.session:finish("gone")
    here:welcome(6)
    local again = here:last_of("desk")
    expect({ again.desk, again.verb, again.after }).to_be({ first.desk, "ask" })
    answer(here, first.desk, { task = "t-1", version = 7 }, {})
    here.session:finish("gone")
    here:welcome(7)
    again = here:last_of("desk")
    expect({ again.desk, again.verb, again.after, again.task }).to_be({ first.desk, "watch", 7, "t-1" })
    expect(again.bytes).to_be(nil)
  end)

  it("follows an undo, and asks for it again by the same id", function()
    local here, machine = welcomed()
    local nonce = type_command("undo", "0a1b")
    local first = here:last_of("desk")
    expect({ first.verb, first.task }).to_be({ "undo", "t-0a1b" })
    here.session:finish("gone")
    here:welcome(6)
    local again = here:last_of("desk")
    expect({ again.desk, again.verb, again.task }).to_be({ first.desk, "undo", "t-0a1b" })
    answer(here, first.desk, { task = "t-2", version = 1 }, {})
    here.session:finish("gone")
    here:welcome(7)
    again = here:last_of("desk")
    expect({ again.verb, again.task, again.after }).to_be({ "watch", "t-2", 1 })
    answer(here, first.desk, { task = "t-2", version = 9, done = true }, { { is = "good", text = "Done" } })
    expect(last(told_to(machine, nonce))[2]).to_be(true)
  end)

  it("says with a stop what the task had changed", function()
    local here, machine = welcomed()
    local nonce = type_command("stop")
    local line = { is = "note", text = "It had changed a." }
    answer(here, here:last_of("desk").desk, { done = true, task = "t-1" }, { line })
    expect(last(told_to(machine, nonce))).to_be({
      "good:Stopped: t-1.\30note:It had changed a.",
      true,
      "lines",
    })
  end)

  it("never sends twice what changes something", function()
    local here, machine = welcomed()
    local nonce = type_command("answer", "yes")
    here.session:finish("gone")
    here:welcome(6)
    expect(here:count("desk")).to_be(0)
    expect(last(told_to(machine, nonce))[1]).to_contain("lost before the answer came")
  end)

  it("waits a while for a connection, then says that nothing was asked", function()
    local here, machine = welcomed()
    here.session:finish("gone")
    local nonce = type_command("ask", "fix")
    expect(last(told_to(machine, nonce))[3]).to_be("doing")
    machine.now_ms = machine.now_ms + 21000
    desk.tick()
    expect(last(told_to(machine, nonce))[1]).to_contain("Nothing was asked")
    here:welcome(6)
    expect(here:count("desk")).to_be(0)
  end)

  it("says what to do when no answer comes", function()
    local here, machine = welcomed()
    local nonce = type_command("ask", "fix")
    machine.now_ms = machine.now_ms + 11000
    desk.tick()
    expect(last(told_to(machine, nonce))[1]).to_contain("`cc tasks` shows it")
    -- What comes too late is not followed any more.
    answer(here, here:last_of("desk").desk, { task = "t-1", version = 1 }, {})
    expect(here:last_of("desk").verb).to_be("leave")
  end)

  it("makes up for frames that the computer dropped", function()
    local here, machine = welcomed()
    type_command("watch")
    local id = here:last_of("desk").desk
    answer(here, id, { task = "t-1", version = 3 }, {})
    machine.now_ms = machine.now_ms + 61000
    desk.tick()
    local again = here:last_of("desk")
    expect({ again.desk, again.verb, again.after, again.task }).to_be({ id, "watch", 3, "t-1" })
  end)

  it("leaves a task that the player leaves", function()
    local here, machine = welcomed()
    local nonce = type_command("watch")
    local id = here:last_of("desk").desk
    answer(here, id, { task = "t-1", version = 3 }, {})
    command.event({ "cc_orchestrator_left", nonce, n = 2 })
    expect(here:last_of("desk").verb).to_be("leave")
    local before = #told_to(machine, nonce)
    answer(here, id, { task = "t-1", version = 4, done = true }, {})
    expect(#told_to(machine, nonce)).to_be(before)
  end)

  it("says that an orchestrator is too old, and asks it no more", function()
    local here, machine = welcomed()
    local nonce = type_command("tasks")
    local message = "The header cannot be read: Input tag 'desk' does not match any of the expected tags."
    here:receive({ type = "error", code = "bad_frame", message = message })
    expect(last(told_to(machine, nonce))[1]).to_contain("older than this client")
    here.sent = {}
    expect(last(told_to(machine, type_command("ask", "fix")))[1]).to_contain("older than this client")
    expect(here:count("desk")).to_be(0)
  end)

  it("takes no body that is not what its header says, and raises for nothing", function()
    local here, machine = welcomed()
    local nonce = type_command("tasks")
    local id = here:last_of("desk").desk
    local before = #told_to(machine, nonce)
    here:receive({ type = "told", desk = id, ok = true, done = true }, "no list")
    here.session:receive(
      ('{"type":"told","desk":"%s","ok":true,"done":true,"body":{"offset":0,"total":2,"sha256":"%s"}}\n[]'):format(
        id,
        ("0"):rep(64)
      ),
      true
    )
    answer(here, "nobody", { done = true }, {})
    expect(#told_to(machine, nonce)).to_be(before)
    expect(here:count("error")).to_be(0)
  end)

  it("hands the steps of a review on, and what comes back to the program", function()
    local here, machine = welcomed()
    local nonce = type_command("-review", "review_page", '{"page":1}')
    local asked = here:last_of("desk")
    expect({ asked.verb, asked.bytes }).to_be({ "review_page", '{"page":1}' })
    here:receive({ type = "told", desk = asked.desk, ok = true, done = true }, '{"page":1}')
    expect(last(told_to(machine, nonce))).to_be({ '{"page":1}', true, "review" })
    nonce = type_command("-review", "review", "{}")
    local refusal = { ok = false, done = true, code = "pin_wanted", message = "Type the PIN of ann." }
    answer(here, here:last_of("desk").desk, refusal)
    expect(last(told_to(machine, nonce))).to_be({ refusal.message, true, "refused pin_wanted" })
    expect(told_to(machine, type_command("review", "ann"))[1]).to_be({
      "This `cc` is older than the client: run the installer again.",
      true,
      "bad",
    })
  end)

  it("never sends a step of a review twice", function()
    local here, machine = welcomed()
    local nonce = type_command("-review", "review_decide", "{}")
    here.session:finish("gone")
    here:welcome(6)
    expect(here:count("desk")).to_be(0)
    expect(last(told_to(machine, nonce))[1]).to_contain("`cc review` shows what still waits.")
  end)

  it("lets nobody type from outside until a review is over", function()
    local _, machine = welcomed()
    expect(desk.is_reviewed()).to_be(false)
    type_command("-review", "review", "{}")
    expect(desk.is_reviewed()).to_be(true)
    machine.now_ms = machine.now_ms + 300001
    expect(desk.is_reviewed()).to_be(false)
    type_command("-review", "review_page", "{}")
    expect(desk.is_reviewed()).to_be(true)
    type_command("-review", "review_end", "{}")
    expect(desk.is_reviewed()).to_be(false)
  end)

  it("says at its end that the task goes on", function()
    local here, machine = welcomed()
    local nonce = type_command("watch")
    answer(here, here:last_of("desk").desk, { task = "t-1", version = 3 }, {})
    desk.close()
    expect(last(told_to(machine, nonce))[1]).to_contain("the task goes on")
  end)
end)

describe("shown", function()
  local machines = {}
  --- What is printed of some calls, with the colours in brackets.
  local function printed(colour, body)
    machines[#machines + 1] = computer.new()
    local text, at = {}, 1
    local function put(piece)
      text[#text + 1] = piece
      at = at + #piece
    end
    colors =
      { cyan = "cyan", gray = "gray", lime = "lime", yellow = "yellow", lightBlue = "blue", red = "red" }
    term = {
      isColour = function()
        return colour
      end,
      getTextColour = function()
        return "white"
      end,
      setTextColour = function(value)
        put("[" .. value .. "]")
      end,
      getCursorPos = function()
        return at, 1
      end,
      setCursorPos = function() end,
      clearLine = function()
        put("<clear>")
      end,
      getSize = function()
        return 20, 19
      end,
    }
    print = function(line)
      put(line .. "\n")
    end
    write = put
    body()
    return table.concat(text)
  end

  it("shows lines in colour, and what goes on below them until the next", function()
    expect(printed(true, function()
      shown.tell("say:I look.\30doing:the model thinks very hard", "lines")
      shown.tell("good:Done: it runs", "lines")
      shown.finish(false)
    end)).to_be("I look.\n[gray]the model thinks ve[white]<clear>[lime]Done: it runs\n[white]")
  end)

  it("marks them where there is no colour, and says how to answer and to come back", function()
    local text = printed(false, function()
      shown.tell("t-1", "task")
      shown.tell("tool:cc_read\30ask:Which?", "lines")
      shown.finish(true)
    end)
    expect(text).to_contain("> cc_read\n? Which?\nIt waits, for days too: q, then cc answer TEXT")
    expect(text).to_contain("The task goes on. `cc watch t-1` shows it again.")
  end)

  it("is left with q, and the client is told", function()
    for _, leaving in ipairs({ { "char", "q" }, { "terminate" } }) do
      local machine
      local nonce, left
      local text = printed(false, function()
        machine = machines[#machines]
        local running = coroutine.create(require("cc").run)
        assert(coroutine.resume(running, "watch"))
        nonce = machine.events[1][2]
        assert(coroutine.resume(running, "cc_orchestrator_told", nonce, "t-1", false, "task"))
        assert(coroutine.resume(running, "char", "x"))
        expect(coroutine.status(running)).to_be("suspended")
        assert(coroutine.resume(running, table.unpack(leaving)))
        expect(coroutine.status(running)).to_be("dead")
        left = last(machine.events)
      end)
      expect({ left[1], left[2] }).to_be({ "cc_orchestrator_left", nonce })
      expect(text).to_contain("The task goes on. `cc watch t-1` shows it again.")
    end
  end)
end)
