--- `cc review`: shows what waits for a person, page by page, and sends what they decide.
--
-- A part of the program `cc`. It asks the client for each step, and the client asks the orchestrator, which lets
-- nobody approve what was not shown to its end: docs/protocol.md section 1.7.
-- @module review

local json = require("json")
local panel = require("panel")

local review = {}

local ASK, TOLD, LEFT = "cc_orchestrator_ask", "cc_orchestrator_told", "cc_orchestrator_left"
local ANSWER_WITHIN_S = 2
--- Longer than the client waits for the orchestrator: what it said then was lost in a full queue.
local LOST_AFTER_S = 15
local OLD_CLIENT = "The client here is older than its `cc`: type `cc update`."
local NO_CLIENT = "The client does not answer: start it with `cc start`, or restart the computer."
local LOST = "The answer was lost at this computer: `cc review` shows what still waits."
--- Codes after which this review goes on, with the list.
local GOES_ON =
  { not_pending = true, expired = true, start_again = true, busy = true, invalid_decision = true }

--- The session with the orchestrator; nil: none yet.
local session

local function queue(verb, fields)
  local nonce = ("%.0f.%d"):format(os.epoch("utc"), math.random(1000000))
  fields.session = session
  os.queueEvent(ASK, nonce, "-review", verb, json.encode(fields))
  return nonce
end

--- One step: what comes back; or nil, why not, and a code. Without a code it makes no sense to go on.
local function ask(verb, fields)
  local nonce, timer, why = queue(verb, fields), os.startTimer(ANSWER_WITHIN_S), NO_CLIENT
  while true do
    local event, first, text, is_last, kind = os.pullEventRaw()
    if event == TOLD and first == nonce then
      if is_last and kind == "review" then
        return json.decode(text)
      elseif is_last then
        local code = kind and kind:match("^refused (.+)$")
        return nil, kind and text or OLD_CLIENT, code
      end
      timer, why = os.startTimer(LOST_AFTER_S), LOST
    elseif event == "timer" and first == timer then
      return nil, why
    elseif event == "terminate" then
      os.queueEvent(LEFT, nonce)
      error(panel.LEFT, 0)
    end
  end
end

--- Raises what ends the review, for the player to read.
local function stop(why)
  error({ says = why }, 0)
end

--- A step of a session: what comes back, or nil and why not, where the review goes on.
local function step(verb, fields)
  local told, why, code = ask(verb, fields)
  if not told and not GOES_ON[code] then
    stop(why)
  end
  return told, why
end

-- Pages -------------------------------------------------------------------------------------------

local NEXT, BACK = { "n", "[N]ext", goes = 2 }, { "b", "[B]ack", goes = 1 }
local APPROVE, ANSWER = { "a", "[A]pprove", goes = 3 }, { "a", "[A]nswer", goes = 3 }
local REJECT, TO_LIST = { "r", "[R]eject", goes = 2 }, { "l", "[L]ist", goes = 1 }

local function buttons_of(entry, page)
  local is_last, list = page.page == page.pages, {}
  list[#list + 1] = not is_last and NEXT or nil
  list[#list + 1] = page.page > 1 and BACK or nil
  if entry.task and entry.is == "asks" then
    list[#list + 1] = ANSWER
  else
    list[#list + 1] = is_last and page.whole and APPROVE or nil
    list[#list + 1] = REJECT
  end
  list[#list + 1] = TO_LIST
  return list
end

--- Sends what was decided; what is said then.
local function decide(entry, page, action, text)
  local fields = { id = entry.id, digest = page.digest, nonce = page.nonce, action = action, text = text }
  fields.task = entry.is == "asks" and entry.task or nil
  local told, why = step("review_decide", fields)
  return told and told.said or why
end

local function approve(entry, page)
  return panel.is_sure("Approve all of it?") and decide(entry, page, "approve") or nil
end

local function reject(entry, page)
  local reason = panel.line("Why? Or nothing.")
  return reason and decide(entry, page, "reject", reason)
end

local function answer(entry, page)
  local text = panel.line("The answer:")
  return text and text ~= "" and decide(entry, page, "answer", text) or nil
end

--- A page from the orchestrator, for the screen as it is; a sentence: why there is none.
local function page_of(entry, at, before)
  local columns, rows = panel.size()
  local wanted = { id = entry.id, page = at, nonce = before and before.nonce, columns = columns, rows = rows }
  wanted.task = entry.is == "asks" and entry.task or nil
  local told, why = step("review_page", wanted)
  if told then
    told.columns, told.height = columns, rows
  end
  return told or why
end

--- Shows a page and waits for a key; `resize`: it was made for a screen of another size.
local function key_at(entry, at, page)
  local columns, height = panel.size()
  if columns ~= page.columns or height ~= page.height then
    return "resize"
  end
  local is_cut = at == page.pages and not page.whole
  local title = is_cut and "Too long: decide it elsewhere" or entry.title
  panel.show(("%d/%d %s"):format(at, page.pages, title), page.rows)
  return panel.choose(buttons_of(entry, page), { q = true })
end

--- Turns the pages of one entry until it is decided or left; what is said then.
local function read(entry)
  local pages, at = {}, 1
  while true do
    pages[at] = pages[at] or page_of(entry, at, pages[at - 1])
    local page, said = pages[at], nil
    if type(page) == "string" then
      return page
    end
    local key = key_at(entry, at, page)
    if key == "resize" then
      pages, at = {}, 1
    elseif key == "n" then
      at = at + 1
    elseif key == "b" then
      at = at - 1
    elseif key == "l" or key == "q" then
      return nil
    elseif key == "r" then
      said = reject(entry, page)
    elseif entry.is == "asks" then
      said = answer(entry, page)
    else
      said = approve(entry, page)
    end
    if said then
      return said
    end
  end
end

-- The list ----------------------------------------------------------------------------------------

local function outside(list)
  return list.outside > 0 and (" %d more outside the game."):format(list.outside) or ""
end

--- Rows for as many entries as fit, and the keys that open them.
local function rows_of(list, said)
  local rows, known, _, height = {}, { q = true }, panel.size()
  local room = height - 2
  for _, text in ipairs(said and panel.wrapped(said) or {}) do
    rows[#rows + 1] = { text = text, is = "alarm" }
  end
  for index, entry in ipairs(list.list) do
    if #rows < room then
      local key = tostring(index)
      known[key] = true
      rows[#rows + 1] = { text = ("%s %s %s"):format(key, entry.is, entry.title), key = key }
    end
  end
  return rows, known
end

--- Shows the list, and what it leads to, until the player leaves or nothing waits; what is said last.
local function lead(list)
  local said
  while #list.list > 0 do
    local rows, known = rows_of(list, said)
    panel.show(("%d wait: type a number"):format(#list.list + list.more), rows)
    local key = panel.choose({ { "u", "[U]pdate" }, { "q", "[Q]uit" } }, known)
    if key == "q" then
      return ""
    end
    if key ~= "resize" then
      said = list.list[tonumber(key)] and read(list.list[tonumber(key)])
      local told, why = step("review", {})
      list, said = told or list, said or why
    end
  end
  return (said and said .. " " or "") .. "Nothing waits for " .. list.person .. "." .. outside(list)
end

--- Opens a session, with a PIN where one is asked for; nil: the player left.
local function open(person)
  local pin
  while true do
    local told, why, code = ask("review", { person = person, pin = pin })
    if told then
      session = told.session
      return told
    elseif code ~= "pin_wanted" and code ~= "wrong_pin" then
      stop(why)
    end
    panel.show("cc review", {})
    pin = panel.line(why, true)
    if not pin then
      return nil
    end
  end
end

--- `cc review [PERSON] [on MONITOR]`.
function review.run(...)
  local words = { ... }
  local person = words[1] ~= "on" and words[1] or nil
  local where = person and 2 or 1
  local can_show, why = panel.open(words[where] == "on" and words[where + 1] or nil)
  if not can_show then
    return printError(why)
  end
  local ok, said = pcall(function()
    local list = open(person)
    return list and lead(list)
  end)
  if session then
    queue("review_end", {})
    session = nil
  end
  panel.close()
  if ok then
    print(said or "")
  elseif said ~= panel.LEFT then
    printError(type(said) == "table" and said.says or said)
  end
end

return review
