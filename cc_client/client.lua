-- The cc-orchestrator client in one file. Made by scripts/bundle_client.py from cc_client/lua:
-- change those files, not this one.
local preload, loaded = {}, {}

local function require(name)
  if loaded[name] == nil then
    loaded[name] = preload[name]()
  end
  return loaded[name]
end

preload["about"] = function()
local answers = require("answers")
local disk = require("disk")
local json = require("json")
local params = require("params")
local about = {}
local function limit(value)
  return type(value) == "number" and value < 1e13 and math.floor(value) or -1
end
local function capacity()
  local _, bytes = disk.try(fs.getCapacity, "")
  return limit(bytes)
end
local function peripherals()
  local list = {}
  local ok, names = disk.try(peripheral and peripheral.getNames or error)
  for index, name in ipairs(ok and names or {}) do
    local types = { disk.try(peripheral.getType, name) }
    list[index] = { name = name, types = json.array(types[1] and { table.unpack(types, 2) } or {}) }
  end
  table.sort(list, function(left, right)
    return left.name < right.name
  end)
  return list
end
local function facts()
  local data = { free = limit(disk.free_bytes("")), capacity = capacity() }
  data.uptime_s = math.floor(os.clock())
  data.day, data.time = math.floor(os.day()), math.floor(os.time() * 60)
  if turtle then
    data.fuel = limit(turtle.getFuelLevel())
  end
  local label = (os.getComputerLabel())
  data.label = label and label:sub(1, 64)
  return data
end
function about.info(given, body, has_body, job)
  params.check(given, {})
  params.no_body(body, has_body)
  return answers.after_start(function()
    local list = peripherals()
    return answers.done(facts(), (answers.list(#list, function(index)
      return list[index]
    end, job.pause)))
  end)
end
return about
end

preload["answers"] = function()
local disk = require("disk")
local failure = require("failure")
local files = require("files")
local frame = require("frame")
local json = require("json")
local params = require("params")
local paths = require("paths")
local answers = {}
function answers.done(data, body, hash)
  return { ok = true, data = data, body = body, hash = hash }
end
function answers.after_start(act)
  return { act = act }
end
function answers.stale(actual)
  failure.raise("stale", "What is there is not what the call expects.", { actual = actual })
end
function answers.need(path, wanted)
  local kind = files.kind(path)
  if kind == "absent" then
    failure.raise("not_found", "There is nothing at this path.")
  elseif kind ~= wanted then
    local code = kind == "directory" and "is_directory" or "not_a_directory"
    failure.raise(code, "There is a " .. kind .. " at this path.")
  end
end
function answers.read(path)
  local bytes, message = disk.read(path)
  if not bytes then
    failure.raise_fs(message)
  end
  return bytes
end
function answers.check_size(size)
  if size > frame.MAX_WHOLE_BYTES then
    failure.raise("too_large", "More than a body carries.", { size = size })
  end
end
function answers.program(word)
  if not shell then
    failure.raise("internal", "The client was not started by a shell.")
  end
  shell.setDir("")
  local path = shell.resolveProgram(word)
  if not path then
    failure.raise("not_found", "There is no program of this name.")
  end
  path = paths.canonical(path)
  params.check_path(path)
  return path
end
local PAUSE_EVERY = 50
function answers.list(count, value, pause, is_cut)
  local parts, size = {}, 2
  for index = 1, count do
    local text = json.encode(value(index))
    size = size + #text + 1
    if is_cut and size > frame.MAX_WHOLE_BYTES then
      break
    end
    answers.check_size(size)
    parts[index] = text
    if index % PAUSE_EVERY == 0 then
      pause()
    end
  end
  return "[" .. table.concat(parts, ",") .. "]", #parts
end
return answers
end

preload["calls"] = function()
local failure = require("failure")
local frame = require("frame")
local Journal = require("journal")
local Loop = require("loop")
local methods = require("methods")
local sha256 = require("sha256")
local Swap = require("swap")
local Calls = {}
Calls.__index = Calls
local MAX_OPEN = 8
local MAX_KEPT = 64
local MAX_PENDING = 16
local RETRY_JOURNAL_S = 2
function Calls.new(journal, loop, log)
  local self = { journal = journal, loop = loop, log = log, pending = {}, pending_count = 0, retained = {} }
  return setmetatable(self, Calls)
end
local function answer(self, header, body, body_sha256)
  if self.session then
    self.session:send(header, body, body_sha256)
  end
end
function Calls:refuse(call, code, message)
  answer(self, { type = "call_refused", call_id = call.call_id, code = code, message = message })
end
local function send_output(self, id, offset, text)
  if self.session then
    local described = { offset = offset, total = offset + #text, sha256 = sha256.hex(text) }
    self.session:send_frame({ type = "output", call_id = id }, text, described)
  end
end
function Calls:has_large_result(id)
  local kept, entry = self.retained[id], self.journal.state.calls[id]
  local is_over = entry and (entry.state == "ok" or entry.state == "failed")
  return is_over and kept and kept.body and #kept.body > frame.MAX_BODY_BYTES or false
end
function Calls:send_result(id)
  local kept = self.retained[id]
  if not kept then
    local entry = self.journal.state.calls[id]
    local ok = entry.state == "ok"
    kept = { header = { ok = ok, code = entry.code, data = {} } }
  end
  local header = { type = "result", call_id = id }
  for key, value in pairs(kept.header) do
    header[key] = value
  end
  answer(self, header, kept.body, kept.body_sha256)
end
local function start(self, call)
  local code, message
  local ok, why = self.journal:commit(function(state)
    local open, kept = Journal.count(state)
    if call.doomed or call.number < state.fence then
      code, message = "below_fence", "The fence is above this call's number."
    elseif open >= MAX_OPEN or kept >= MAX_KEPT then
      code, message = "busy", open .. " calls are open and " .. kept .. " outcomes are not acknowledged."
    end
    if code then
      return false
    end
    state.calls[call.call_id] = { state = "open", number = call.number }
    state.highest = math.max(state.highest, call.number)
  end)
  if ok then
    return true
  end
  return false, code or "journal_failed", message or why
end
local function prepare(call)
  local method = methods[call.method]
  local ok, plan = pcall(function()
    if not method then
      failure.raise("unknown_method", "This client does not have this method.")
    end
    return method(call.params, call.body, call.has_body, call)
  end)
  if ok then
    return plan
  end
  return {
    act = function()
      error(plan, 0)
    end,
  }
end
local function outcome_of(plan)
  local ok, outcome = pcall(plan.act)
  if ok then
    return outcome
  end
  local why = failure.of(outcome)
  return { ok = false, code = why.code, message = why.message, data = why.data or {} }
end
local function entry_of(outcome)
  if outcome.unknown then
    return { state = "unknown" }
  elseif outcome.ok then
    return { state = "ok", hash = outcome.hash }
  end
  return { state = "failed", code = outcome.code }
end
local function record(self, call, outcome)
  while true do
    local ok, message = self.journal:commit(function(state)
      state.calls[call.call_id] = entry_of(outcome)
    end)
    if ok or self.journal.stopped then
      return ok
    end
    self.log(message)
    Loop.sleep(RETRY_JOURNAL_S)
  end
end
local function retain(self, call, outcome)
  local header = { ok = outcome.ok, code = outcome.code, data = outcome.data }
  header.message = outcome.message and frame.short(outcome.message)
  local hash = outcome.body and (outcome.body_sha256 or sha256.hex(outcome.body, Loop.pause))
  self.retained[call.call_id] = { header = header, body = outcome.body, body_sha256 = hash }
end
local function forget_pending(self, call)
  self.pending[call.call_id] = nil
  self.pending_count = self.pending_count - 1
end
local function perform(self, call)
  local body_sha256 = sha256.hex(call.body, Loop.pause)
  if call.has_body and body_sha256 ~= call.body_sha256 then
    forget_pending(self, call)
    local sentence = "The body does not have the sha256 that the header names."
    return self.session and self.session:complain("bad_frame", sentence, call.call_id)
  end
  local plan = prepare(call)
  call.body = nil
  local started, code, message = start(self, call)
  forget_pending(self, call)
  if not started then
    if plan.swap then
      plan.swap:remove()
    end
    return self:refuse(call, code, message)
  end
  answer(self, { type = "ack", call_id = call.call_id })
  local outcome = outcome_of(plan)
  retain(self, call, outcome)
  if not record(self, call, outcome) then
    return
  end
  if plan.swap and not outcome.unknown then
    plan.swap:remove()
  end
  self:send_result(call.call_id)
end
local function answer_again(self, call, entry)
  if entry.state == "open" then
    answer(self, { type = "ack", call_id = call.call_id })
  elseif entry.state == "ok" or entry.state == "failed" then
    self:send_result(call.call_id)
  else
    self.session:complain("already_" .. entry.state, "This call was begun before a reboot.", call.call_id)
  end
end
function Calls:knows(id)
  return self.journal.state.calls[id] ~= nil or self.pending[id] ~= nil
end
function Calls:take(header, body)
  local entry = self.journal.state.calls[header.call_id]
  if entry then
    return answer_again(self, header, entry)
  elseif self.pending[header.call_id] then
    return
  elseif self.pending_count >= MAX_PENDING then
    return self:refuse(header, "busy", MAX_PENDING .. " calls are being prepared.")
  end
  local call = {
    call_id = header.call_id,
    number = header.number,
    method = header.method,
    params = header.params or {},
    body = body,
    has_body = header.body ~= nil,
    body_sha256 = header.body and header.body.sha256,
    pause = Loop.pause,
    next_event = Loop.next_event,
    wake = function()
      self.loop:wake()
    end,
    output = function(offset, text)
      send_output(self, header.call_id, offset, text)
    end,
  }
  self.pending[call.call_id] = call
  self.pending_count = self.pending_count + 1
  self.loop:spawn(perform, self, call)
end
function Calls:session_ended()
  self.session = nil
  for _, call in pairs(self.pending) do
    call.doomed = true
  end
end
function Calls:doom(id)
  if self.pending[id] then
    self.pending[id].doomed = true
  end
end
local function settled_entry(self, id)
  local entry = self.journal.state.calls[id]
  if not entry then
    return { call_id = id, state = "void" }
  elseif entry.state == "open" then
    return { call_id = id, state = "running" }
  elseif entry.state == "interrupted" or entry.state == "unknown" then
    return { call_id = id, state = entry.state }
  end
  if self.retained[id] and not self:has_large_result(id) then
    self:send_result(id)
  end
  local ok = entry.state == "ok"
  return { call_id = id, state = "finished", ok = ok, code = entry.code, sha256 = entry.hash }
end
function Calls:settle(ids)
  local list = {}
  for index, id in ipairs(ids) do
    list[index] = settled_entry(self, id)
  end
  return list
end
function Calls:acknowledge(id, number)
  local entry = self.journal.state.calls[id]
  if entry and entry.state == "open" then
    return nil, "This call is still running."
  elseif not entry and number <= self.journal.state.highest then
    return true
  end
  local ok, message = self.journal:commit(function(state)
    state.calls[id] = nil
    state.highest = math.max(state.highest, number)
  end)
  if not ok then
    return nil, message
  end
  self.retained[id] = nil
  local swap = entry and Swap.find(id)
  if swap and entry.state == "unknown" then
    swap:keep()
  elseif swap then
    swap:remove()
  end
  return true
end
return Calls
end

preload["capture"] = function()
local Capture = {}
Capture.__index = Capture
local WIDTH, HEIGHT = 200, 50
local HEAD_BYTES, TAIL_BYTES = 16384, 16384
local FRESH_BYTES = 4096
local MAX_OVER = 32
local function last_bytes(list, limit)
  local text = table.concat(list)
  local excess = math.max(0, #text - limit)
  return { text:sub(excess + 1) }, excess
end
local function add_fresh(self, text)
  self.fresh[#self.fresh + 1] = text
  self.fresh_bytes = self.fresh_bytes + #text
  if self.fresh_bytes > 2 * FRESH_BYTES or #self.fresh > 1024 then
    self.fresh = last_bytes(self.fresh, FRESH_BYTES)
    self.fresh_bytes = #self.fresh[1]
  end
end
local function add(self, text)
  self.total = self.total + #text
  add_fresh(self, text)
  local room = HEAD_BYTES - self.head_bytes
  if room > 0 then
    self.head[#self.head + 1] = text:sub(1, room)
    self.head_bytes = self.head_bytes + math.min(room, #text)
    text = text:sub(room + 1)
  end
  if text ~= "" then
    self.tail[#self.tail + 1] = text
    self.tail_bytes = self.tail_bytes + #text
    if self.tail_bytes > 2 * TAIL_BYTES or #self.tail > 4096 then
      self:trim()
    end
  end
end
function Capture:trim()
  local tail, excess = last_bytes(self.tail, TAIL_BYTES)
  self.tail, self.tail_bytes, self.cut = tail, #tail[1], self.cut + excess
end
local function catch_up(self)
  if self.y ~= self.row then
    add(self, ("\n"):rep(math.max(1, self.y - self.row)))
    self.row, self.column = self.y, 1
  elseif self.x < self.column then
    add(self, "\n")
    self.column = 1
  end
  if self.x > self.column then
    add(self, (" "):rep(math.min(self.x - self.column, WIDTH)))
  end
end
function Capture:text()
  if self.y > self.row then
    add(self, ("\n"):rep(self.y - self.row))
    self.row, self.column = self.y, 1
  end
  self:trim()
  local marker = self.cut > 0 and "\n[... " .. self.cut .. " bytes left out ...]\n" or ""
  return table.concat(self.head) .. marker .. self.tail[1], self.cut
end
function Capture:has_fresh()
  return self.fresh_bytes > 0
end
function Capture:take_fresh()
  local text = last_bytes(self.fresh, FRESH_BYTES)[1]
  self.fresh, self.fresh_bytes = {}, 0
  return self.total - #text, text
end
local DIGIT = {}
for index = 0, 15 do
  DIGIT[2 ^ index] = ("%x"):format(index)
end
local function blank_row(self)
  local fg, bg = DIGIT[self.TextColour], DIGIT[self.BackgroundColour]
  if self.blank_key ~= fg .. bg then
    self.blank_key = fg .. bg
    self.blank = { (" "):rep(WIDTH), fg:rep(WIDTH), bg:rep(WIDTH) }
  end
  return self.blank
end
local function flat(row)
  for _, one in ipairs(row.over or {}) do
    local x, text = one[1], one[2]
    local first, last = math.max(1, x), math.min(WIDTH, x + #text - 1)
    if last >= first then
      local drawn = {}
      for index = 1, 3 do
        local over = one[index + 1]
        over = #over == #text and over or over:rep(#text)
        over = over:sub(first - x + 1, last - x + 1)
        drawn[index] = row[index]:sub(1, first - 1) .. over .. row[index]:sub(last + 1)
      end
      row = drawn
    end
  end
  return { row[1], row[2], row[3] }
end
local function draw(self, text, fg, bg)
  local row = self.rows[self.top + self.y]
  if not row.over or #row.over >= MAX_OVER then
    row = flat(row)
    row.over = {}
    self.rows[self.top + self.y] = row
  end
  if #text > WIDTH then
    text = text:sub(1, self.x < 1 and 1 - self.x + WIDTH or WIDTH)
    fg, bg = fg:sub(1, #text), bg:sub(1, #text)
  end
  row.over[#row.over + 1] = { self.x, text, fg, bg }
end
local function scroll(self, count)
  local rows = {}
  if count == 1 then
    rows, self.top = self.rows, self.top + 1
    rows[self.top] = nil
    rows[self.top + HEIGHT] = blank_row(self)
    return
  end
  for y = 1, HEIGHT do
    rows[y] = y + count >= 1 and self.rows[self.top + y + count] or blank_row(self)
  end
  self.rows, self.top = rows, 0
end
function Capture:screen()
  local rows = {}
  for y = 1, HEIGHT do
    rows[y] = flat(self.rows[self.top + y])
  end
  local x = math.max(-WIDTH, math.min(2 * WIDTH, self.x))
  return { width = WIDTH, height = HEIGHT, x = x, y = self.y, blink = self.blink, rows = rows }
end
local function put(self, text, fg, bg)
  if text == "" then
    return
  end
  catch_up(self)
  add(self, text)
  draw(self, text, fg, bg)
  self.x = self.x + #text
  self.column = self.x
end
local function whole(number)
  number = math.floor(number)
  return number ~= number and 1 or math.max(-1e6, math.min(1e6, number))
end
local function cursor_functions(self, terminal)
  function terminal.getCursorPos()
    return self.x, self.y
  end
  function terminal.setCursorPos(x, y)
    self.x, self.y = whole(x), math.max(1, math.min(HEIGHT, whole(y)))
  end
  function terminal.scroll(rows)
    rows = math.max(-HEIGHT, math.min(HEIGHT, whole(rows)))
    self.row = self.row - rows
    scroll(self, rows)
  end
  function terminal.getSize()
    return WIDTH, HEIGHT
  end
  function terminal.getCursorBlink()
    return self.blink
  end
  function terminal.setCursorBlink(blink)
    self.blink = blink == true
  end
end
local function writing_functions(self, terminal)
  function terminal.write(text)
    text = tostring(text)
    put(self, text, DIGIT[self.TextColour], DIGIT[self.BackgroundColour])
  end
  function terminal.blit(text, fg, bg)
    text, fg, bg = tostring(text), tostring(fg):lower(), tostring(bg):lower()
    if #fg ~= #text or #bg ~= #text then
      error("Arguments must be the same length", 2)
    end
    put(self, text, (fg:gsub("[^%x]", "0")), (bg:gsub("[^%x]", "f")))
  end
  function terminal.clear()
    for y = 1, HEIGHT do
      self.rows[self.top + y] = blank_row(self)
    end
  end
  function terminal.clearLine()
    self.rows[self.top + self.y] = blank_row(self)
  end
end
local function colour_functions(self, terminal)
  local function both_spellings(name, fn)
    terminal[name] = fn
    terminal[name:gsub("Colour", "Color")] = fn
  end
  for _, which in ipairs({ "TextColour", "BackgroundColour" }) do
    both_spellings("get" .. which, function()
      return self[which]
    end)
    both_spellings("set" .. which, function(colour)
      if not (colour >= 1 and colour < 65536) then
        error("Colour out of range", 2)
      end
      self[which] = 2 ^ math.floor(math.log(colour, 2) + 1e-9)
    end)
  end
  both_spellings("isColour", function()
    return true
  end)
  both_spellings("getPaletteColour", function()
    return 0, 0, 0
  end)
  both_spellings("setPaletteColour", function() end)
end
function Capture.new()
  local self = setmetatable({ head = {}, head_bytes = 0, tail = {}, tail_bytes = 0, cut = 0 }, Capture)
  self.total, self.fresh, self.fresh_bytes = 0, {}, 0
  self.x, self.y, self.row, self.column, self.blink = 1, 1, 1, 1, false
  self.TextColour, self.BackgroundColour = 1, 32768
  self.rows, self.top, self.terminal = {}, 0, {}
  cursor_functions(self, self.terminal)
  writing_functions(self, self.terminal)
  colour_functions(self, self.terminal)
  self.terminal.clear()
  return self
end
return Capture
end

preload["changing"] = function()
local answers = require("answers")
local failure = require("failure")
local files = require("files")
local params = require("params")
local paths = require("paths")
local sha256 = require("sha256")
local Swap = require("swap")
local changing = {}
local EMPTY_DIRECTORY = sha256.hex("")
local PAUSE_EVERY = 1000
local function check_place(path)
  if paths.is_mount(path) then
    failure.raise("access_denied", "This is a disk, not a file.")
  end
  files.check_above(path)
end
local function check_writable(path)
  if files.ask(fs.isReadOnly, path) then
    failure.raise("read_only", "This path is read-only.")
  end
end
local function look(given, job)
  check_place(given.path)
  local shot = files.snapshot(given.path, job.pause)
  if shot.hash ~= given.if_hash then
    answers.stale(shot.hash)
  end
  check_writable(given.path)
  return shot
end
local function look_at_file(given, job)
  local shot = look(given, job)
  if shot.kind == "directory" then
    failure.raise("is_directory", "There is a directory at this path.")
  end
  return shot
end
local function need_something(shot)
  if shot.kind == "absent" then
    failure.raise("not_found", "There is nothing at this path.")
  end
end
local function need_nothing(path)
  check_place(path)
  if files.kind(path) ~= "absent" then
    failure.raise("exists", "There is something at this path already.")
  end
  check_writable(path)
end
local function by_swap(job, method, shot, change, data)
  local swap = Swap.make(job.call_id, method, shot.path, change)
  local after = change.after
  return {
    swap = swap,
    act = function()
      local stepped, unknown = swap:step(shot)
      if stepped then
        return answers.done(data, nil, after)
      end
      local sentence = "The change failed half way; what was there is kept in " .. swap.old .. "."
      return { ok = false, code = "outcome_unknown", message = sentence, data = {}, unknown = unknown }
    end,
  }
end
function changing.fs_write(given, body, has_body, job)
  params.check(given, { "path", "if_hash" })
  if not has_body then
    params.bad("The bytes to write must come as the body.")
  end
  local shot, hash = look_at_file(given, job), job.body_sha256
  local data = { size = #body, sha256 = hash, before = shot.hash }
  return by_swap(job, "fs_write", shot, { bytes = body, after = hash }, data)
end
local function occurrences(text, old, pause)
  local first, count, position = nil, 0, 1
  while true do
    position = text:find(old, position, true)
    if not position then
      return first, count
    end
    first, count, position = first or position, count + 1, position + 1
    if count % PAUSE_EVERY == 0 then
      pause()
    end
  end
end
local function edited(text, body, old_size, pause)
  local old = body:sub(1, old_size)
  local first, count = occurrences(text, old, pause)
  if count == 0 then
    failure.raise("no_match", "The old bytes are not in the file.")
  elseif count > 1 then
    failure.raise("several_matches", "The old bytes are in the file more than once.", { count = count })
  end
  return text:sub(1, first - 1) .. body:sub(old_size + 1) .. text:sub(first + old_size)
end
function changing.fs_edit(given, body, has_body, job)
  params.check(given, { "path", "if_hash", "old_size" })
  if not has_body or given.old_size > #body then
    params.bad("The body must be the old bytes, of which there are old_size, and then the new.")
  end
  local shot = look_at_file(given, job)
  need_something(shot)
  local bytes = edited(shot.bytes, body, given.old_size, job.pause)
  local hash = sha256.hex(bytes, job.pause)
  local data = { size = #bytes, sha256 = hash, before = shot.hash }
  return by_swap(job, "fs_edit", shot, { bytes = bytes, after = hash }, data)
end
function changing.fs_delete(given, body, has_body, job)
  params.check(given, { "path", "if_hash" })
  params.no_body(body, has_body)
  local shot = look(given, job)
  need_something(shot)
  return by_swap(job, "fs_delete", shot, { after = files.ABSENT }, { before = shot.hash })
end
local function is_inside(path, directory)
  return (path:lower() .. "/"):sub(1, #directory + 1) == directory:lower() .. "/" and #path > #directory
end
function changing.fs_move(given, body, has_body, job)
  params.check(given, { "path", "if_hash", "to", "if_to" })
  params.no_body(body, has_body)
  if is_inside(given.to, given.path) then
    params.bad("A directory cannot be moved into itself.")
  end
  local shot = look(given, job)
  need_something(shot)
  need_nothing(given.to)
  local change = { to = given.to, shot = shot, after = shot.hash, pause = job.pause }
  return by_swap(job, "fs_move", shot, change, { before = shot.hash })
end
function changing.fs_mkdir(given, body, has_body, job)
  params.check(given, { "path", "if_hash" })
  params.no_body(body, has_body)
  if given.if_hash ~= files.ABSENT then
    params.bad("if_hash of a directory to be made must be absent.")
  end
  need_nothing(given.path)
  local shot = files.snapshot(given.path, job.pause)
  return by_swap(job, "fs_mkdir", shot, { after = EMPTY_DIRECTORY }, { before = files.ABSENT })
end
return changing
end

preload["disk"] = function()
local disk = {}
disk.OWN = ".cc-orchestrator"
function disk.try(operation, ...)
  local results = table.pack(pcall(operation, ...))
  if results[1] then
    return true, table.unpack(results, 2, results.n)
  end
  return nil, tostring(results[2])
end
local function close(handle)
  return disk.try(handle.close)
end
function disk.read(path)
  local ok, handle, message = disk.try(fs.open, path, "rb")
  if not ok then
    return nil, handle
  elseif not handle then
    return nil, message or "cannot open"
  end
  local read, bytes = disk.try(handle.readAll)
  close(handle)
  if not read then
    return nil, bytes
  end
  return bytes or ""
end
function disk.write(path, bytes)
  local ok, handle, message = disk.try(fs.open, path, "wb")
  if not ok then
    return nil, handle
  elseif not handle then
    return nil, message or "cannot open"
  end
  local written, why = disk.try(handle.write, bytes)
  local closed, why_not = close(handle)
  if not written or not closed then
    return nil, why or why_not
  end
  local sized, size = disk.try(fs.getSize, path)
  if not sized or size ~= #bytes then
    return nil, "the file is shorter than what was written"
  end
  return true
end
function disk.free_bytes(path)
  local ok, free = disk.try(fs.getFreeSpace, path)
  if ok and type(free) == "number" then
    return free
  end
  return ok and math.huge or 0
end
return disk
end

preload["failure"] = function()
local failure = {}
local mark = {
  __tostring = function(self)
    return self.code .. ": " .. self.message
  end,
}
function failure.raise(code, message, data)
  error(setmetatable({ code = code, message = message, data = data }, mark), 0)
end
function failure.of(caught)
  if type(caught) == "table" and getmetatable(caught) == mark then
    return caught
  end
  return setmetatable({ code = "internal", message = tostring(caught) }, mark)
end
local SAYINGS = {
  { "out of space", "no_space_for_safe_write" },
  { "no such file", "not_found" },
  { "access denied", "access_denied" },
  { "read.only", "read_only" },
  { "not a directory", "not_a_directory" },
  { "not a file", "is_directory" },
}
function failure.raise_fs(sentence)
  local lower = tostring(sentence):lower()
  for _, saying in ipairs(SAYINGS) do
    if lower:find(saying[1]) then
      failure.raise(saying[2], sentence)
    end
  end
  failure.raise("internal", sentence)
end
return failure
end

preload["files"] = function()
local disk = require("disk")
local failure = require("failure")
local paths = require("paths")
local sha256 = require("sha256")
local files = {}
files.ABSENT = "absent"
local MAX_SNAPSHOT_BYTES = 2 * 1024 * 1024
local MAX_SNAPSHOT_ENTRIES = 4000
function files.ask(operation, ...)
  local results = table.pack(disk.try(operation, ...))
  if not results[1] then
    failure.raise_fs(results[2])
  end
  return table.unpack(results, 2, results.n)
end
function files.kind(path)
  if not files.ask(fs.exists, path) then
    return "absent"
  end
  return files.ask(fs.isDir, path) and "directory" or "file"
end
local function read(path)
  local bytes, message = disk.read(path)
  if not bytes then
    failure.raise_fs(message)
  end
  return bytes
end
local function check_size(bytes)
  if bytes > MAX_SNAPSHOT_BYTES then
    failure.raise("too_large", "There is too much below this path to hash it.")
  end
end
local function walk(path, relative, entries, options)
  for _, name in ipairs(files.ask(fs.list, path)) do
    local full, below = paths.join(path, name), paths.join(relative, name)
    if paths.is_protected(full) or paths.is_mount(full) then
      if not options.skip then
        failure.raise("access_denied", "This directory holds the client's own files or another disk.")
      end
    else
      local kind = files.ask(fs.isDir, full) and "directory" or "file"
      entries[#entries + 1] = { path = below, kind = kind }
      if #entries > options.max then
        failure.raise("too_large", "There are more than " .. options.max .. " files below this path.")
      elseif kind == "directory" then
        walk(full, below, entries, options)
      end
    end
    options.pause()
  end
end
function files.below(path, options)
  local entries = {}
  walk(path, "", entries, options)
  table.sort(entries, function(left, right)
    return left.path < right.path
  end)
  return entries
end
local function tree(path, pause, skip)
  local entries = files.below(path, { pause = pause, max = MAX_SNAPSHOT_ENTRIES, skip = skip })
  local size = 0
  for _, entry in ipairs(entries) do
    if entry.kind == "file" then
      entry.bytes = read(paths.join(path, entry.path))
      size = size + #entry.bytes
      check_size(size)
      pause()
    end
  end
  return entries
end
local function manifest(entries, pause)
  local lines = {}
  for index, entry in ipairs(entries) do
    local hash = entry.bytes and sha256.hex(entry.bytes, pause) or "-"
    lines[index] = entry.path .. "\0" .. entry.kind .. "\0" .. hash .. "\n"
    pause()
  end
  return table.concat(lines)
end
local function nothing() end
local function look(path, pause, skip)
  local kind = files.kind(path)
  local shot = { path = path, kind = kind, skip = skip }
  if kind == "file" then
    shot.bytes = read(path)
    shot.size = #shot.bytes
    check_size(shot.size)
  elseif kind == "directory" then
    shot.entries = tree(path, pause, skip)
    shot.size = 0
  end
  return shot
end
function files.snapshot(path, pause, skip)
  local shot = look(path, pause, skip)
  if shot.kind == "file" then
    shot.hash = sha256.hex(shot.bytes, pause)
  elseif shot.kind == "directory" then
    shot.manifest = manifest(shot.entries, pause)
    shot.hash = sha256.hex(shot.manifest, pause)
  else
    shot.hash = files.ABSENT
  end
  return shot
end
function files.is_same(shot)
  local now = look(shot.path, nothing, shot.skip)
  if now.kind ~= shot.kind or now.bytes ~= shot.bytes then
    return false
  end
  local before, after = shot.entries or {}, now.entries or {}
  if #before ~= #after then
    return false
  end
  for index, entry in ipairs(before) do
    local other = after[index]
    if entry.path ~= other.path or entry.kind ~= other.kind or entry.bytes ~= other.bytes then
      return false
    end
  end
  return true
end
function files.check_above(path)
  local above = paths.parent(path)
  while above ~= "" do
    if files.kind(above) == "file" then
      failure.raise("not_a_directory", "A part of the path is a file, not a directory.")
    end
    above = paths.parent(above)
  end
end
return files
end

preload["finding"] = function()
local answers = require("answers")
local failure = require("failure")
local files = require("files")
local frame = require("frame")
local glob = require("glob")
local params = require("params")
local paths = require("paths")
local finding = {}
local MAX_ENTRIES = 20000
local MAX_LINES = 5
local MAX_TEXT_BYTES = 200
local BEFORE_BYTES = 80
local PAUSE_EVERY = 1000
local function count_lines(bytes, start, number, target, pause)
  while true do
    local stop = bytes:find("\n", start, true)
    if not stop or stop >= target then
      return number, start, stop or #bytes + 1
    end
    start, number = stop + 1, number + 1
    if number % PAUSE_EVERY == 0 then
      pause()
    end
  end
end
local function lines_with(bytes, wanted, pause)
  local found, start, number = {}, 1, 1
  while #found < MAX_LINES do
    local first, last = bytes:find(wanted, start, true)
    if not first then
      break
    end
    local stop
    number, start, stop = count_lines(bytes, start, number, first, pause)
    local from = last - start < MAX_TEXT_BYTES and start or math.max(start, first - BEFORE_BYTES)
    local text = bytes:sub(from, math.min(stop - 1, from + MAX_TEXT_BYTES - 1))
    found[#found + 1] = { line = number, text = text }
    start, number = stop + 1, number + 1
  end
  return found[1] and found
end
local function search(full, wanted, pause)
  local size = files.ask(fs.getSize, full)
  if size > frame.MAX_WHOLE_BYTES then
    failure.raise("too_large", "A file is too large to look into: " .. full, { size = size })
  end
  return lines_with(answers.read(full), wanted, pause)
end
local function select(given, matching, pause)
  local list, count = {}, 0
  for _, entry in ipairs(matching) do
    local full, is_directory = paths.join(given.path, entry.path), entry.kind == "directory"
    local lines
    if given.contains then
      lines = not is_directory and search(full, given.contains, pause)
      pause()
    end
    if lines or not given.contains then
      count = count + 1
      if count <= given.max then
        list[count] = { path = full, dir = is_directory, lines = lines }
        list[count].size = is_directory and 0 or files.ask(fs.getSize, full)
      end
    end
  end
  return list, count
end
local function find(given, pause)
  answers.need(given.path, "directory")
  local matches, matching = glob(given.pattern), {}
  for index, entry in ipairs(files.below(given.path, { pause = pause, max = MAX_ENTRIES, skip = true })) do
    if matches(entry.path) then
      matching[#matching + 1] = entry
    end
    if index % PAUSE_EVERY == 0 then
      pause()
    end
  end
  local list, count = select(given, matching, pause)
  local body, told = answers.list(#list, function(index)
    return list[index]
  end, pause, true)
  return answers.done({ count = count, cut = told < count }, body)
end
function finding.fs_find(given, body, has_body, job)
  params.check(given, { "path", "pattern", "contains?", "max" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    return find(given, job.pause)
  end)
end
return finding
end

preload["frame"] = function()
local json = require("json")
local frame = {}
frame.MAX_HEADER_BYTES = 4096
frame.MAX_BODY_BYTES = 49152
frame.MAX_WHOLE_BYTES = 2097152
frame.MAX_FRAME_BYTES = frame.MAX_HEADER_BYTES + 1 + frame.MAX_BODY_BYTES
local CHECKS = {}
function CHECKS.counter(value)
  return type(value) == "number" and value >= 0
end
function CHECKS.text(value)
  return type(value) == "string"
end
function CHECKS.call_id(value)
  return type(value) == "string" and #value <= 24 and value:find("^[%w_.-]+$") ~= nil
end
function CHECKS.object(value)
  return type(value) == "table" and not json.is_array(value)
end
function CHECKS.call_ids(value)
  if not json.is_array(value) then
    return false
  end
  for _, id in ipairs(value) do
    if not CHECKS.call_id(id) then
      return false
    end
  end
  return true
end
local function describes_body(value)
  return CHECKS.object(value)
    and CHECKS.counter(value.offset)
    and CHECKS.counter(value.total)
    and value.total <= frame.MAX_WHOLE_BYTES
    and type(value.sha256) == "string"
    and value.sha256:find("^" .. ("[0-9a-f]"):rep(64) .. "$") ~= nil
end
function CHECKS.body(value)
  return describes_body(value) and value.offset == 0
end
function CHECKS.part(value)
  return describes_body(value) and value.offset > 0 and value.offset < value.total
end
local FROM_SERVER = {
  welcome = { number = "counter", computer = "text", silence_s = "counter?" },
  refused = { code = "text", message = "text", remedy = "text?" },
  call = {
    call_id = "call_id",
    task = "text",
    number = "counter",
    method = "text",
    params = "object?",
    body = "body?",
  },
  settle = { number = "counter", call_ids = "call_ids" },
  result_ack = { call_id = "call_id", number = "counter" },
  chunk = { call_id = "call_id", body = "part" },
  chunk_ack = { call_id = "call_id", offset = "counter" },
  ping = { n = "counter" },
  error = { code = "text", message = "text", call_id = "call_id?", journal_seq = "counter?" },
}
local function fault(header)
  if not CHECKS.object(header) or type(header.type) ~= "string" then
    return "The header is not an object with a type."
  end
  local fields = FROM_SERVER[header.type]
  if not fields then
    return "A server does not send this type of message."
  end
  for name, check in pairs(fields) do
    local optional = check:sub(-1) == "?"
    local value = header[name]
    if value == nil and not optional or value ~= nil and not CHECKS[check:gsub("%?", "")](value) then
      return "The field " .. name .. " of " .. header.type .. " is missing or wrong."
    end
  end
  for name in pairs(header) do
    if name ~= "type" and not fields[name] then
      return "A " .. header.type .. " has a field that it should not have."
    end
  end
end
local MAX_MESSAGE_BYTES = 160
function frame.short(message)
  message = tostring(message)
  return #message <= MAX_MESSAGE_BYTES and message or message:sub(1, MAX_MESSAGE_BYTES - 3) .. "..."
end
function frame.encode(header, bytes, described)
  if bytes and #bytes > frame.MAX_BODY_BYTES then
    return nil, "The body has " .. #bytes .. " bytes, over " .. frame.MAX_BODY_BYTES .. "."
  end
  header.body = described
  local line = json.encode(header)
  if #line > frame.MAX_HEADER_BYTES then
    return nil, "The header has " .. #line .. " bytes, over " .. frame.MAX_HEADER_BYTES .. "."
  end
  return line .. "\n" .. (bytes or "")
end
local function part_bytes(described)
  return described and math.min(described.total - described.offset, frame.MAX_BODY_BYTES) or 0
end
function frame.decode(message)
  local newline = message:sub(1, frame.MAX_HEADER_BYTES + 1):find("\n", 1, true)
  if not newline then
    return nil, "The frame has no header line within " .. frame.MAX_HEADER_BYTES .. " bytes."
  end
  local header, what = json.decode(message:sub(1, newline - 1))
  if header == nil then
    return nil, "The header is not JSON of this protocol: " .. what .. "."
  end
  what = fault(header)
  local call_id = type(header) == "table" and CHECKS.call_id(header.call_id) and header.call_id or nil
  if what then
    return nil, what, call_id
  end
  local body = message:sub(newline + 1)
  if #body ~= part_bytes(header.body) then
    return nil, "The body has not the length that the header names.", call_id
  end
  return header, body
end
return frame
end

preload["glob"] = function()
local SLASH = ("/"):byte()
local SPECIAL = {
  { "^/%*%*$", { "fork", SLASH, "any" } },
  { "^%*%*/", { "fork", "any", SLASH } },
  { "^%*%*", { "any" } },
  { "^%*", { "name" } },
  { "^%?", { "one" } },
}
local function special_at(pattern, position)
  local rest = pattern:sub(position)
  for _, special in ipairs(SPECIAL) do
    local _, last = rest:find(special[1])
    if last then
      return special[2], last
    end
  end
  return { pattern:byte(position) }, 1
end
local function tokens_of(pattern)
  local tokens, position = {}, 1
  while position <= #pattern do
    local found, length = special_at(pattern, position)
    for _, token in ipairs(found) do
      tokens[#tokens + 1] = token
    end
    position = position + length
  end
  return tokens
end
local function add(tokens, places, index)
  if places[index] then
    return
  end
  places[index] = true
  local token = tokens[index]
  if token == "name" or token == "any" or token == "fork" then
    add(tokens, places, index + 1)
  end
  if token == "fork" then
    add(tokens, places, index + 3)
  end
end
local function after_byte(tokens, places, byte)
  local reached = {}
  for index in pairs(places) do
    local token = tokens[index]
    if token == "any" or token == "name" and byte ~= SLASH then
      add(tokens, reached, index)
    elseif token == byte or token == "one" and byte ~= SLASH then
      add(tokens, reached, index + 1)
    end
  end
  return reached
end
return function(pattern)
  local tokens = tokens_of((pattern:gsub("^/+", "")))
  return function(path)
    local places = {}
    add(tokens, places, 1)
    for position = 1, #path do
      places = after_byte(tokens, places, path:byte(position))
      if next(places) == nil then
        return false
      end
    end
    return places[#tokens + 1] == true
  end
end
end

preload["guard"] = function()
local Guard = {}
Guard.__index = Guard
local MAX_BUSY_MS = 4000
local HOOK_EVERY = 10000
local TOO_LONG = "Too long without yielding"
Guard.TOO_LONG = TOO_LONG
local native_create, native_resume = coroutine.create, coroutine.resume
local native_xpcall, native_debug = xpcall, debug
local set_hook = debug and debug.sethook
local function program_debug()
  if not native_debug then
    return nil
  end
  local own = {}
  for name, value in pairs(native_debug) do
    own[name] = value
  end
  own.getupvalue, own.setupvalue, own.upvalueid, own.upvaluejoin, own.getregistry = nil, nil, nil, nil, nil
  own.sethook = function() end
  own.gethook = function() end
  return own
end
local function check(self)
  if self.tripped then
    error(TOO_LONG, 3)
  end
end
local function guarded_wrap(self)
  return function(body)
    local co = self.create(body)
    return function(...)
      check(self)
      local results = table.pack(native_resume(co, ...))
      if not results[1] then
        error(results[2], 0)
      end
      return table.unpack(results, 2, results.n)
    end
  end
end
local function guarded_resume(self)
  return function(...)
    check(self)
    return native_resume(...)
  end
end
local function guarded_xpcall(self)
  return function(body, handler, ...)
    return native_xpcall(body, function(...)
      if self.tripped then
        return (...)
      end
      return handler(...)
    end, ...)
  end
end
function Guard.new(deadline_ms)
  local self = setmetatable({ deadline_ms = deadline_ms, stop_at_ms = 0 }, Guard)
  self.epoch = os.epoch
  self.create = function(body)
    check(self)
    return self:watch(native_create(body))
  end
  self.globals =
    { self.create, guarded_wrap(self), guarded_resume(self), guarded_xpcall(self), program_debug() }
  return self
end
function Guard.works()
  return set_hook ~= nil
end
function Guard:watch(co)
  if not set_hook then
    return co
  end
  local function hook()
    if not self.running then
      return
    elseif not self.tripped then
      local now = self.epoch("utc")
      if now < self.stop_at_ms then
        return
      end
      self.tripped = now >= self.deadline_ms and "deadline" or "busy"
    end
    set_hook(co, hook, "", 1)
    error(TOO_LONG, 2)
  end
  set_hook(co, hook, "", HOOK_EVERY)
  return co
end
local function get_globals()
  return { coroutine.create, coroutine.wrap, coroutine.resume, _G.xpcall, _G.debug }
end
local function put_globals(globals)
  coroutine.create, coroutine.wrap, coroutine.resume = globals[1], globals[2], globals[3]
  _G.xpcall, _G.debug = globals[4], globals[5]
end
function Guard:resume(co, grace_ms, ...)
  local now = self.epoch("utc")
  self.stop_at_ms = math.max(now + grace_ms, math.min(now + MAX_BUSY_MS, self.deadline_ms))
  local before = get_globals()
  put_globals(self.globals)
  self.running = true
  local results = table.pack(native_resume(co, ...))
  self.running = false
  self.globals = get_globals()
  put_globals(before)
  return table.unpack(results, 1, results.n)
end
function Guard:text(value, grace_ms)
  if type(value) == "string" then
    return value
  end
  self.tripped = nil
  local ok, text = self:resume(self.create(tostring), grace_ms, value)
  return ok and type(text) == "string" and text or "a " .. type(value)
end
return Guard
end

preload["journal"] = function()
local disk = require("disk")
local Journal = {}
Journal.__index = Journal
local SLOT_BYTES = 8192
local SLOTS = { "a", "b" }
local CRC = {}
for byte = 0, 255 do
  local value = byte
  for _ = 1, 8 do
    local low = value % 2
    value = bit32.rshift(value, 1)
    value = low == 1 and bit32.bxor(value, 0xEDB88320) or value
  end
  CRC[byte] = value
end
local function crc32(text)
  local value = 0xFFFFFFFF
  for index = 1, #text do
    local slot = bit32.band(bit32.bxor(value, text:byte(index)), 0xFF)
    value = bit32.bxor(bit32.rshift(value, 8), CRC[slot])
  end
  return ("%08x"):format(bit32.bnot(value))
end
local STATES = { open = true, ok = true, failed = true, interrupted = true, unknown = true }
local function entry_line(id, entry)
  local detail = entry.number and ("%.0f"):format(entry.number) or entry.hash or entry.code or "-"
  return ("call %s %s %s"):format(id, entry.state, detail)
end
local function write_state(state)
  local lines = { "seq " .. ("%.0f"):format(state.seq), "boot " .. state.boot }
  lines[#lines + 1] = "fence " .. ("%.0f"):format(state.fence)
  lines[#lines + 1] = "highest " .. ("%.0f"):format(state.highest)
  if state.found_seq then
    lines[#lines + 1] = "found " .. ("%.0f"):format(state.found_seq)
  end
  local ids = {}
  for id in pairs(state.calls) do
    ids[#ids + 1] = id
  end
  table.sort(ids)
  for _, id in ipairs(ids) do
    lines[#lines + 1] = entry_line(id, state.calls[id])
  end
  return table.concat(lines, "\n") .. "\n"
end
local function read_entry(line)
  local id, state, detail = line:match("^call (%S+) (%a+) (%S+)$")
  if not STATES[state] then
    return nil
  end
  local entry = { state = state }
  if state == "open" then
    entry.number = tonumber(detail)
  elseif state == "ok" then
    entry.hash = detail ~= "-" and detail or nil
  elseif state == "failed" then
    entry.code = detail
  end
  return id, entry
end
local function read_state(payload)
  local state = { calls = {} }
  for line in payload:gmatch("[^\n]+") do
    local word, rest = line:match("^(%a+) (.*)$")
    if word == "call" then
      local id, entry = read_entry(line)
      if not id then
        return nil
      end
      state.calls[id] = entry
    elseif word == "boot" then
      state.boot = rest
    elseif word then
      state[word == "found" and "found_seq" or word] = tonumber(rest)
    end
  end
  return state.seq and state.boot and state.fence and state.highest and state
end
local function write_slot(state)
  local payload = write_state(state)
  local text = ("cc-orchestrator journal 1 %s %d\n%s"):format(crc32(payload), #payload, payload)
  if #text >= SLOT_BYTES then
    return nil
  end
  return text .. (" "):rep(SLOT_BYTES - #text - 1) .. "\n"
end
local function read_slot(bytes)
  local sum, length, start = bytes:match("^cc%-orchestrator journal 1 (%x+) (%d+)\n()")
  if not sum or #bytes ~= SLOT_BYTES then
    return nil
  end
  local payload = bytes:sub(start, start + tonumber(length) - 1)
  if #payload ~= tonumber(length) or crc32(payload) ~= sum then
    return nil
  end
  return read_state(payload)
end
local function slot_path(slot)
  return disk.OWN .. "/journal." .. slot
end
local function fresh(boot)
  return { seq = 0, boot = boot, fence = 0, highest = 0, found_seq = 0, calls = {} }
end
local function copy(state)
  local twin = { calls = {} }
  for key, value in pairs(state) do
    if key ~= "calls" then
      twin[key] = value
    end
  end
  for id, entry in pairs(state.calls) do
    twin.calls[id] = entry
  end
  return twin
end
function Journal.open(boot)
  local self = setmetatable({ boot = boot, known = {}, newest = "b", found = false }, Journal)
  local best
  for _, slot in ipairs(SLOTS) do
    self.known[slot] = disk.read(slot_path(slot)) or false
    local state = self.known[slot] and read_slot(self.known[slot])
    if state and (not best or state.seq > best.seq) then
      best, self.newest, self.found = state, slot, true
    end
  end
  self.state = best or fresh(boot)
  return self
end
function Journal:is_foreign()
  for _, slot in ipairs(SLOTS) do
    local bytes = disk.read(slot_path(slot)) or false
    local state = bytes and bytes ~= self.known[slot] and read_slot(bytes)
    if state and state.boot ~= self.boot then
      return true
    end
  end
  return false
end
function Journal:commit(change)
  if self.stopped or self:is_foreign() then
    self.stopped = true
    return nil, "Another client works on this computer; this one has stopped."
  end
  local state = copy(self.state)
  state.seq, state.boot = state.seq + 1, self.boot
  if change(state) == false then
    return nil, "nothing to write"
  end
  local bytes = write_slot(state)
  if not bytes then
    return nil, "The journal is full."
  end
  local slot = self.newest == "a" and "b" or "a"
  local written, message = disk.write(slot_path(slot), bytes)
  self.known[slot] = disk.read(slot_path(slot)) or false
  if not written or self.known[slot] ~= bytes then
    return nil, "The journal cannot be written: " .. tostring(message)
  end
  self.newest, self.state = slot, state
  return true
end
function Journal:begin(decisions)
  local both = self.known.a and self.known.b
  for _ = 1, both and 1 or 2 do
    local seq = self.state.seq
    local ok, message = self:commit(function(state)
      state.found_seq = math.min(state.found_seq or seq, seq)
      for id, entry in pairs(state.calls) do
        if entry.state == "open" then
          state.calls[id] = decisions[id] or { state = "interrupted" }
        end
      end
    end)
    if not ok then
      return nil, message
    end
  end
  return true
end
function Journal.count(state)
  local open, kept = 0, 0
  for _, entry in pairs(state.calls) do
    if entry.state == "open" then
      open = open + 1
    else
      kept = kept + 1
    end
  end
  return open, kept
end
return Journal
end

preload["json"] = function()
local json = {}
json.MAX_DEPTH = 16
json.MAX_NUMBER = 1e13
local array_mark = { __name = "json.array" }
function json.array(list)
  return setmetatable(list, array_mark)
end
function json.is_array(value)
  return type(value) == "table" and getmetatable(value) == array_mark
end
local NAMED = { ['"'] = '\\"', ["\\"] = "\\\\" }
local function escape(char)
  return NAMED[char] or string.format("\\u%04x", char:byte())
end
local function write_string(text)
  return '"' .. text:gsub('[%c"\\\127-\255]', escape) .. '"'
end
local function write_number(number)
  if number ~= math.floor(number) or math.abs(number) > json.MAX_NUMBER then
    error("json: not an integer within range: " .. tostring(number), 0)
  end
  return string.format("%.0f", number)
end
local write_value
local function write_list(list, out, depth)
  out[#out + 1] = "["
  for index = 1, #list do
    if index > 1 then
      out[#out + 1] = ","
    end
    write_value(list[index], out, depth)
  end
  out[#out + 1] = "]"
end
local function write_object(object, out, depth)
  local keys = {}
  for key in pairs(object) do
    if type(key) ~= "string" then
      error("json: an object has a key that is no string", 0)
    end
    keys[#keys + 1] = key
  end
  table.sort(keys)
  out[#out + 1] = "{"
  for index, key in ipairs(keys) do
    out[#out + 1] = (index > 1 and "," or "") .. write_string(key) .. ":"
    write_value(object[key], out, depth)
  end
  out[#out + 1] = "}"
end
function write_value(value, out, depth)
  local kind = type(value)
  if depth == json.MAX_DEPTH and kind == "table" then
    error("json: nested too deep", 0)
  end
  if kind == "string" then
    out[#out + 1] = write_string(value)
  elseif kind == "number" then
    out[#out + 1] = write_number(value)
  elseif kind == "boolean" then
    out[#out + 1] = tostring(value)
  elseif kind == "table" and (json.is_array(value) or value[1] ~= nil) then
    write_list(value, out, depth + 1)
  elseif kind == "table" then
    write_object(value, out, depth + 1)
  else
    error("json: cannot write a " .. kind, 0)
  end
end
function json.encode(value)
  local out = {}
  write_value(value, out, 0)
  return table.concat(out)
end
local SHORT = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }
local function fail(what, position)
  error({ json_error = what .. " at byte " .. position }, 0)
end
local function skip_blanks(text, position)
  return text:find("[^ \t\r\n]", position) or #text + 1
end
local function read_escape(text, position)
  local letter = text:sub(position, position)
  if SHORT[letter] then
    return SHORT[letter], position + 1
  end
  local hex = letter == "u" and text:match("^00(%x%x)", position + 1)
  if not hex then
    fail("an escape that is not one byte", position)
  end
  return string.char(tonumber(hex, 16)), position + 5
end
local function read_string(text, position)
  local parts = {}
  while true do
    local stop = text:find('["\\\0-\31\128-\255]', position)
    if not stop then
      fail("a string without an end", position)
    end
    parts[#parts + 1] = text:sub(position, stop - 1)
    local char = text:sub(stop, stop)
    if char == '"' then
      return table.concat(parts), stop + 1
    elseif char ~= "\\" then
      fail("a byte that must be escaped", stop)
    end
    parts[#parts + 1], position = read_escape(text, stop + 1)
  end
end
local function read_number(text, position)
  local digits = text:match("^%-?%d+", position)
  local after = position + #digits
  if digits:find("^%-?0%d") or text:find("^[%.eE]", after) or #digits > 15 then
    fail("a number that is no plain integer", position)
  end
  local number = tonumber(digits)
  if math.abs(number) > json.MAX_NUMBER then
    fail("a number out of range", position)
  end
  return number, after
end
local read_value
local function read_list(text, position, depth)
  local list = json.array({})
  position = skip_blanks(text, position)
  if text:sub(position, position) == "]" then
    return list, position + 1
  end
  while true do
    list[#list + 1], position = read_value(text, position, depth)
    position = skip_blanks(text, position)
    local char = text:sub(position, position)
    if char == "]" then
      return list, position + 1
    elseif char ~= "," then
      fail("a list without comma or end", position)
    end
    position = position + 1
  end
end
local function read_member(text, position, object, depth)
  position = skip_blanks(text, position)
  if text:sub(position, position) ~= '"' then
    fail("an object without a key", position)
  end
  local key, value
  key, position = read_string(text, position + 1)
  position = skip_blanks(text, position)
  if text:sub(position, position) ~= ":" or object[key] ~= nil then
    fail("a key without a value, or twice", position)
  end
  value, position = read_value(text, position + 1, depth)
  object[key] = value
  return skip_blanks(text, position)
end
local function read_object(text, position, depth)
  local object = {}
  position = skip_blanks(text, position)
  if text:sub(position, position) == "}" then
    return object, position + 1
  end
  while true do
    position = read_member(text, position, object, depth)
    local char = text:sub(position, position)
    if char == "}" then
      return object, position + 1
    elseif char ~= "," then
      fail("an object without comma or end", position)
    end
    position = position + 1
  end
end
function read_value(text, position, depth)
  position = skip_blanks(text, position)
  local char = text:sub(position, position)
  if depth == json.MAX_DEPTH and char:find("[%[{]") then
    fail("nesting too deep", position)
  elseif char == '"' then
    return read_string(text, position + 1)
  elseif char == "{" then
    return read_object(text, position + 1, depth + 1)
  elseif char == "[" then
    return read_list(text, position + 1, depth + 1)
  elseif text:find("^%-?%d", position) then
    return read_number(text, position)
  elseif text:sub(position, position + 3) == "true" then
    return true, position + 4
  elseif text:sub(position, position + 4) == "false" then
    return false, position + 5
  end
  return fail("no value", position)
end
local function read_whole(text)
  local value, position = read_value(text, 1, 0)
  if skip_blanks(text, position) <= #text then
    fail("something after the end", position)
  end
  return value
end
function json.decode(text)
  local ok, value = pcall(read_whole, text)
  if ok then
    return value
  elseif type(value) == "table" and value.json_error then
    return nil, value.json_error
  end
  return nil, tostring(value)
end
return json
end

preload["link"] = function()
local nonce = require("nonce")
local Session = require("session")
local Link = {}
Link.__index = Link
local FIRST_DELAY_S, LAST_DELAY_S = 1, 12
local DIAL_WITHIN_S = 35
function Link.new(settings, parts)
  local self = { settings = settings, parts = parts, log = parts.log, failures = 0 }
  self.dial_at_ms = os.epoch("utc")
  return setmetatable(self, Link)
end
local function later(self, delay_s)
  self.url, self.handle, self.session = nil, nil, nil
  self.dial_at_ms = os.epoch("utc") + delay_s * 1000
end
local function after_failure(self, why)
  if why:find("Domain not permitted", 1, true) then
    self.log(
      "The Minecraft server forbids this address; allow it in [[http.rules]] of computercraft-server.toml."
    )
  end
  local ceiling = math.min(LAST_DELAY_S, FIRST_DELAY_S * 2 ^ self.failures)
  self.failures = math.min(self.failures + 1, 10)
  local delay_s = ceiling * nonce.fraction()
  self.log(("%s; next try in %.1f s"):format(why, delay_s))
  later(self, delay_s)
end
local function dial(self)
  local separator = self.settings.url:find("?", 1, true) and "&" or "?"
  local url = self.settings.url .. separator .. "n=" .. nonce.name()
  local headers = { Authorization = "Bearer " .. self.settings.token }
  headers["Sec-WebSocket-Protocol"] = self.parts.subprotocol
  self.url, self.dial_at_ms = url, nil
  self.give_up_ms = os.epoch("utc") + DIAL_WITHIN_S * 1000
  local called, ok, why = pcall(http.websocketAsync, url, headers)
  if not called or ok == false then
    after_failure(self, "cannot dial: " .. tostring(called and why or ok))
  end
end
local function opened(self, handle)
  self.handle = handle
  local socket = {
    send = function(bytes)
      handle.send(bytes, true)
    end,
    close = handle.close,
  }
  local parts = self.parts
  self.session = Session.new(socket, parts.computer, parts.calls, parts.journal, self.log)
  self.session:hello()
end
local function after_session(self)
  local session = self.session
  if session.refused then
    return later(self, LAST_DELAY_S)
  elseif session.welcomed then
    self.failures = 0
  end
  after_failure(self, "not connected")
end
function Link:event(event)
  local name, url = event[1], event[2]
  if self.url == nil or url ~= self.url then
    if
      name == "websocket_success"
      and type(url) == "string"
      and url:find(self.settings.url, 1, true) == 1
    then
      pcall(event[3].close)
    end
    return false
  elseif name == "websocket_success" and not self.session then
    opened(self, event[3])
  elseif name == "websocket_failure" then
    after_failure(self, "cannot connect: " .. tostring(event[3]))
  elseif name == "websocket_message" and self.session then
    self.session:receive(event[3], event[4])
  elseif name == "websocket_closed" and self.session then
    self.session:finish("closed by the other side")
  else
    return false
  end
  if self.session and self.session.over then
    after_session(self)
  end
  return true
end
function Link:tick()
  local now = os.epoch("utc")
  if self.session then
    self.session:tick()
    if self.session.over then
      after_session(self)
    end
  elseif self.dial_at_ms then
    if now >= self.dial_at_ms then
      dial(self)
    end
  elseif now > self.give_up_ms then
    after_failure(self, "no answer")
  end
end
function Link:close()
  if self.session then
    self.session:finish("this client has stopped")
  end
end
function Link:wait_s()
  local left_s = self.dial_at_ms and (self.dial_at_ms - os.epoch("utc")) / 1000 or 1
  return math.max(0, math.min(1, left_s))
end
return Link
end

preload["looking"] = function()
local answers = require("answers")
local files = require("files")
local params = require("params")
local paths = require("paths")
local sha256 = require("sha256")
local looking = {}
local function entry(path, name)
  local full = paths.join(path, name)
  local is_directory = files.ask(fs.isDir, full)
  return { name = name, dir = is_directory, size = is_directory and 0 or files.ask(fs.getSize, full) }
end
function looking.fs_list(given, body, has_body, job)
  params.check(given, { "path" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    answers.need(given.path, "directory")
    local names = files.ask(fs.list, given.path)
    table.sort(names)
    local list = answers.list(#names, function(index)
      return entry(given.path, names[index])
    end, job.pause)
    return answers.done({ count = #names }, list)
  end)
end
function looking.fs_read(given, body, has_body, job)
  params.check(given, { "path" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    answers.need(given.path, "file")
    answers.check_size(files.ask(fs.getSize, given.path))
    local bytes = answers.read(given.path)
    answers.check_size(#bytes)
    local hash = sha256.hex(bytes, job.pause)
    local outcome = answers.done({ size = #bytes, sha256 = hash }, bytes)
    outcome.body_sha256 = hash
    return outcome
  end)
end
local function stat(path, pause)
  local shot = files.snapshot(path, pause, true)
  local data = { kind = shot.kind, path = path, size = shot.size or 0, sha256 = shot.hash }
  data.read_only = files.ask(fs.isReadOnly, path)
  answers.check_size(#(shot.manifest or ""))
  local outcome = answers.done(data, shot.manifest)
  outcome.body_sha256 = shot.manifest and shot.hash
  return outcome
end
function looking.fs_stat(given, body, has_body, job)
  params.check(given, { given.command ~= nil and "command" or "path" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    return stat(given.path or answers.program(given.command), job.pause)
  end)
end
return looking
end

preload["loop"] = function()
local Loop = {}
Loop.__index = Loop
local native_create, native_resume = coroutine.create, coroutine.resume
Loop.SLICE = "cc_orchestrator_slice"
local SLICE_LOST_MS = 2000
function Loop.new(log)
  return setmetatable({ jobs = {}, log = log }, Loop)
end
local function want_slice(self)
  local now = os.epoch("utc")
  if not self.slice_at_ms or now - self.slice_at_ms > SLICE_LOST_MS then
    self.slice_at_ms = now
    os.queueEvent(Loop.SLICE)
  end
end
local function resume(self, job, ...)
  job.waits_for = nil
  local ok, waits_for, value = native_resume(job.co, ...)
  if not ok then
    self.log("internal error: " .. tostring(waits_for))
  end
  if coroutine.status(job.co) == "dead" then
    self.jobs[job] = nil
    return
  end
  job.waits_for, job.at_ms = waits_for, value
  if waits_for == "slice" then
    want_slice(self)
  end
end
function Loop:spawn(body, ...)
  local job = { co = native_create(body) }
  self.jobs[job] = true
  resume(self, job, ...)
end
local function resume_waiting(self, kind, ...)
  local waiting = {}
  for job in pairs(self.jobs) do
    if job.waits_for == kind then
      waiting[#waiting + 1] = job
    end
  end
  for _, job in ipairs(waiting) do
    if job.waits_for == kind then
      resume(self, job, ...)
    end
  end
end
function Loop.pause()
  coroutine.yield("slice")
end
function Loop.next_event()
  return coroutine.yield("event")
end
function Loop.sleep(seconds)
  coroutine.yield("time", os.epoch("utc") + seconds * 1000)
end
function Loop:event(event)
  if event[1] == Loop.SLICE then
    self.slice_at_ms = nil
    resume_waiting(self, "slice")
  else
    resume_waiting(self, "event", event)
  end
end
function Loop:wake()
  resume_waiting(self, "event", nil)
end
function Loop:tick()
  local now, due = os.epoch("utc"), {}
  for job in pairs(self.jobs) do
    if job.waits_for == "slice" then
      want_slice(self)
    elseif job.waits_for == "time" and now >= job.at_ms then
      due[#due + 1] = job
    end
  end
  for _, job in ipairs(due) do
    resume(self, job)
  end
  self:wake()
end
return Loop
end

preload["main"] = function()
local Calls = require("calls")
local disk = require("disk")
local Guard = require("guard")
local Journal = require("journal")
local Link = require("link")
local Loop = require("loop")
local methods = require("methods")
local nonce = require("nonce")
local screen = require("screen")
local Swap = require("swap")
local main = {}
main.VERSION = "0.2.0"
local OLDEST = { 1, 95 }
local SUBPROTOCOL_SINCE = { 1, 97 }
local CONNECTION = disk.OWN .. "/connection"
local function at_least(host, version)
  local major, minor = host:match("ComputerCraft (%d+)%.(%d+)")
  major, minor = tonumber(major), tonumber(minor)
  return not major or major > version[1] or major == version[1] and minor >= version[2]
end
local function family()
  if turtle then
    return "turtle"
  elseif pocket then
    return "pocket"
  elseif commands then
    return "command"
  end
  return term.isColour() and "advanced" or "computer"
end
local function capabilities()
  local list = { "chunks" }
  for name in pairs(methods) do
    list[#list + 1] = name
  end
  if Guard.works() then
    list[#list + 1] = "guard"
  end
  table.sort(list)
  return list
end
local function describe(host)
  local label = (os.getComputerLabel())
  return {
    id = os.getComputerID(),
    label = label and label:sub(1, 64),
    host = host:sub(1, 128),
    family = family(),
    boot = nonce.name(),
    client = main.VERSION,
    capabilities = capabilities(),
  }
end
local function read_settings()
  local text, why = disk.read(CONNECTION)
  if not text then
    return nil, "Cannot read /" .. CONNECTION .. ": " .. why
  end
  local lines = {}
  for line in text:gmatch("[^\r\n]+") do
    lines[#lines + 1] = line
  end
  if not lines[2] or not lines[3] or not lines[2]:find("^wss?://") then
    return nil, "/" .. CONNECTION .. " must hold a comment, the URL and the token, each on a line."
  end
  return { url = lines[2], token = lines[3] }
end
local function open_journal(boot)
  local journal = Journal.open(boot)
  local ok, why = journal:begin(Swap.decide_all(journal.state.calls))
  if not ok then
    return nil, why
  end
  if journal.found then
    Swap.clean(journal.state.calls)
  end
  return journal
end
local function prepare(log)
  local host = tostring(_HOST)
  if not at_least(host, OLDEST) then
    return nil, "cc-orchestrator needs CC: Tweaked 1.95 or newer; this is " .. host .. "."
  elseif not http or not http.websocketAsync then
    return nil, "cc-orchestrator needs the http API with WebSockets; the server has it turned off."
  end
  local settings, why = read_settings()
  if not settings then
    return nil, why
  end
  local computer = describe(host)
  local journal
  journal, why = open_journal(computer.boot)
  if not journal then
    return nil, why
  end
  local loop = Loop.new(log)
  local parts = { computer = computer, calls = Calls.new(journal, loop, log), journal = journal, log = log }
  parts.subprotocol = at_least(host, SUBPROTOCOL_SINCE) and "cc-orchestrator.v1" or nil
  return loop, Link.new(settings, parts), journal
end
local function tick(clock, link, loop)
  link:tick()
  loop:tick()
  local wait_s = link:wait_s()
  clock.due_ms = os.epoch("utc") + wait_s * 1000
  clock.timer = os.startTimer(wait_s)
end
local function is_due(clock, event)
  return event[1] == "timer" and event[2] == clock.timer or os.epoch("utc") >= clock.due_ms
end
local function serve(loop, link, journal)
  local clock = {}
  tick(clock, link, loop)
  while not journal.stopped do
    local event = table.pack(os.pullEventRaw())
    if event[1] == "term_resize" then
      screen.resize()
    end
    if not link:event(event) then
      loop:event(event)
    end
    if is_due(clock, event) then
      tick(clock, link, loop)
    end
  end
  link:close()
  return "Another client works on this computer; this one has stopped."
end
local function run_client(log)
  local loop, link, journal = prepare(log)
  if not loop then
    return link
  end
  return serve(loop, link, journal)
end
local function run_beside_shell(log)
  parallel.waitForAny(function()
    printError(run_client(log))
    while true do
      os.pullEventRaw()
    end
  end, function()
    shell.run("shell")
  end)
end
function main.run(...)
  local beside_shell = (...) == "--beside-shell"
  local log = function(text)
    if not beside_shell then
      print(text)
    end
  end
  screen.open()
  if beside_shell then
    run_beside_shell(log)
  else
    printError(run_client(log))
  end
  screen.close()
end
return main
end

preload["methods"] = function()
local methods = {}
for _, name in ipairs({ "looking", "finding", "changing", "running", "about" }) do
  for method, prepare in pairs(require(name)) do
    methods[method] = prepare
  end
end
return methods
end

preload["nonce"] = function()
local sha256 = require("sha256")
local nonce = {}
local drawn, pool = 0, ""
local function draw()
  drawn = drawn + 1
  local parts = { pool, drawn, os.epoch("utc"), os.clock(), os.getComputerID(), tostring({}), math.random() }
  pool = sha256.hex(table.concat(parts, " "))
  return pool
end
function nonce.name()
  return draw():sub(1, 16)
end
function nonce.fraction()
  return tonumber(draw():sub(1, 8), 16) / 4294967296
end
return nonce
end

preload["params"] = function()
local failure = require("failure")
local files = require("files")
local json = require("json")
local paths = require("paths")
local params = {}
local MAX_TIMEOUT_S = 86400
local MAX_FOUND = 1000
function params.bad(what)
  failure.raise("bad_params", what)
end
local bad = params.bad
local CHECKS = {}
function CHECKS.path(value)
  if type(value) ~= "string" then
    bad("A path must be a string.")
  end
  local ok, sentence, becomes = paths.check(value)
  if not ok then
    failure.raise("bad_path", sentence, { becomes = becomes and becomes:sub(1, paths.MAX_BYTES) })
  elseif paths.is_protected(value) then
    failure.raise("access_denied", "This is the client's own directory.")
  end
end
CHECKS.to = CHECKS.path
function CHECKS.if_hash(value)
  local is_hash = type(value) == "string" and #value == 64 and value:find("^[0-9a-f]+$")
  if not is_hash and value ~= files.ABSENT then
    bad("if_hash must be a sha256 in lower-case hex, or absent.")
  end
end
function CHECKS.if_to(value)
  if value ~= files.ABSENT then
    bad("if_to must be absent.")
  end
end
local function number_check(name, most)
  return function(value)
    if type(value) ~= "number" or value < 1 or value > most then
      bad(name .. " must be from 1 to " .. most .. ".")
    end
  end
end
CHECKS.timeout_s = number_check("timeout_s", MAX_TIMEOUT_S)
CHECKS.max = number_check("max", MAX_FOUND)
CHECKS.old_size = number_check("old_size", 2097152)
local function word_check(name)
  return function(value)
    if type(value) ~= "string" or value == "" or #value > paths.MAX_BYTES then
      bad(name .. " must be a string of 1 to " .. paths.MAX_BYTES .. " bytes.")
    end
  end
end
CHECKS.command, CHECKS.pattern = word_check("command"), word_check("pattern")
CHECKS.contains, CHECKS.run = word_check("contains"), word_check("run")
function params.check(given, names)
  local known = {}
  for _, name in ipairs(names) do
    local plain = name:gsub("%?$", "")
    known[plain] = true
    if given[plain] ~= nil or plain == name then
      CHECKS[plain](given[plain])
    end
  end
  for name in pairs(given) do
    if not known[name] then
      bad("There is a parameter that this method does not have.")
    end
  end
end
function params.check_path(path)
  CHECKS.path(path)
end
function params.no_body(body, has_body)
  if has_body or body ~= "" then
    bad("This method takes no body.")
  end
end
function params.words(body, has_body)
  local list, what = json.decode(has_body and body or "[]")
  if not json.is_array(list) then
    bad("The body must be a JSON list: " .. (what or "it is something else") .. ".")
  end
  for _, word in ipairs(list) do
    if type(word) ~= "string" then
      bad("The body must be a list of strings.")
    end
  end
  return list
end
return params
end

preload["paths"] = function()
local disk = require("disk")
local paths = {}
paths.MAX_BYTES = 500
local MAX_PART_BYTES = 255
local function trim(text)
  return (text:gsub("^%s+", ""):gsub("%s+$", ""))
end
function paths.canonical(path)
  local parts = {}
  local cleaned = path:gsub("\\", "/"):gsub('[\0-\31"*:<>?|]', "")
  for part in cleaned:gmatch("[^/]+") do
    part = trim(part)
    if part == ".." and #parts > 0 and parts[#parts] ~= ".." then
      parts[#parts] = nil
    elseif part ~= "" and part ~= "." and not part:find("^%.%.%.+$") then
      parts[#parts + 1] = #part >= MAX_PART_BYTES and trim(part:sub(1, MAX_PART_BYTES)) or part
    end
  end
  return table.concat(parts, "/")
end
function paths.check(path)
  if #path > paths.MAX_BYTES then
    return false, "The path has " .. #path .. " bytes, over " .. paths.MAX_BYTES .. "."
  end
  local becomes = paths.canonical(path)
  local ok, combined = disk.try(fs.combine, "", path)
  if becomes == path and ok and combined ~= path then
    becomes = combined
  end
  if becomes ~= path then
    return false, "ComputerCraft would make another path of this one.", becomes
  elseif path == ".." or path:sub(1, 3) == "../" then
    return false, "The path leads out of the computer."
  end
  return true
end
local function is_own(part)
  local plain = part:lower():gsub("[%. ]+$", "")
  return plain == disk.OWN or plain:find("^%.?cc%-or%w*~%d+") ~= nil
end
function paths.is_protected(path)
  local first, second = path:match("^([^/]*)/?([^/]*)")
  return is_own(first) or is_own(second)
end
function paths.is_mount(path)
  return path == "" or not path:find("/", 1, true) and paths.mount(path) == path
end
function paths.mount(path)
  local first = path:match("^[^/]+")
  if not first then
    return ""
  end
  local own, here = disk.try(fs.getDrive, "")
  local found, there = disk.try(fs.getDrive, first)
  if own and found and there ~= nil and there ~= here then
    return first
  end
  return ""
end
function paths.parent(path)
  return path:match("^(.*)/[^/]*$") or ""
end
function paths.join(left, right)
  return left == "" and right or left .. "/" .. right
end
return paths
end

preload["programs"] = function()
local Capture = require("capture")
local Guard = require("guard")
local paths = require("paths")
local programs = {}
local TERMINATE_TRIES = 3
local TERMINATE_EVERY_MS = 250
local GRACE_MS = 250
local OUTPUT_EVERY_MS = 500
local MAX_TRACEBACK_BYTES = 8192
local running = {}
local PRIVATE = {
  char = true,
  key = true,
  key_up = true,
  paste = true,
  terminate = true,
  mouse_click = true,
  mouse_up = true,
  mouse_drag = true,
  mouse_scroll = true,
}
local function program_shell(path)
  if not shell then
    return nil
  end
  local own = {
    exit = function() end,
    getRunningProgram = function()
      return path
    end,
  }
  return setmetatable(own, { __index = shell })
end
local function environment(path, arguments)
  local arg = { [0] = path, table.unpack(arguments) }
  local env = setmetatable(
    { arg = arg, shell = program_shell(path), multishell = multishell },
    { __index = _G }
  )
  local loader = loadfile("/rom/modules/main/cc/require.lua", nil, _G)
  local made, make = pcall(loader or error)
  if made and type(make) == "table" and make.make then
    env.require, env.package = make.make(env, paths.parent(path))
  end
  return env
end
local function now_ms(run)
  return run.guard.epoch("utc")
end
local function resume(run, ...)
  local previous = term.redirect(run.terminal)
  local results = table.pack(run.guard:resume(run.co, GRACE_MS, ...))
  run.terminal = term.current()
  term.redirect(previous)
  if coroutine.status(run.co) == "dead" then
    run.results = results
    return false
  end
  run.filter = results[2]
  return true
end
local function start_timer(run, seconds)
  local timer = os.startTimer(seconds)
  run.timers[timer] = true
  return timer
end
local function wants(run, event)
  local name = event[1]
  local is_ours = PRIVATE[name] or name == "timer" and run.timers[event[2]]
  return not is_ours and (run.filter == nil or run.filter == name)
end
local function stream(run)
  local now = now_ms(run)
  if not run.capture:has_fresh() then
    return
  elseif now >= run.output_at_ms then
    run.output_at_ms, run.output_timed = now + OUTPUT_EVERY_MS, false
    run.output(run.capture:take_fresh())
  elseif not run.output_timed then
    run.output_timed = true
    start_timer(run, (run.output_at_ms - now) / 1000)
  end
end
local function feed(run, next_event, ...)
  local going = resume(run, ...)
  while going do
    stream(run)
    local event = next_event()
    if run.stopping or now_ms(run) >= run.deadline_ms then
      return
    elseif event and wants(run, event) then
      going = resume(run, table.unpack(event, 1, event.n))
    end
  end
end
local function terminate(run, next_event)
  local going = resume(run, "terminate")
  local until_ms = math.min(now_ms(run) + TERMINATE_EVERY_MS, run.guard.deadline_ms)
  local timer = start_timer(run, TERMINATE_EVERY_MS / 1000)
  while going and now_ms(run) < until_ms do
    local event = next_event()
    if event and event[1] == "timer" and event[2] == timer then
      timer = start_timer(run, 0.05)
    elseif event and wants(run, event) then
      going = resume(run, table.unpack(event, 1, event.n))
    end
  end
  return not going
end
local function trim_traceback(text)
  local own = text:find("\n%s+%[C%]: in function '[^']*xpcall'%s*$")
  return text:sub(1, own and own - 1 or #text):sub(1, MAX_TRACEBACK_BYTES)
end
local function ending(run)
  local alive, ok, value = table.unpack(run.results, 1, 3)
  if not alive then
    ok, value = false, ok
  end
  local tripped = run.guard.tripped
  if ok and not tripped then
    return "returned", ""
  elseif ok then
    value = Guard.TOO_LONG
  end
  local traceback = trim_traceback(run.guard:text(value, GRACE_MS))
  return tripped == "deadline" and "timed_out" or "error", traceback
end
local function finish(run, next_event)
  if run.results then
    return ending(run)
  end
  local how = run.stopping and "terminated" or "timed_out"
  run.guard.deadline_ms = now_ms(run) + TERMINATE_TRIES * TERMINATE_EVERY_MS
  for _ = 1, TERMINATE_TRIES do
    if terminate(run, next_event) then
      local _, traceback = ending(run)
      return how, traceback
    end
  end
  return "abandoned", ""
end
local function sentence(run, ended, traceback, timeout_s)
  local why = run.stopping and "The program was told to end"
    or "The program did not end within " .. timeout_s .. " s"
  if ended == "error" then
    return traceback:match("^[^\n]*")
  elseif ended == "abandoned" then
    return why .. ", ignored terminate and was left."
  elseif ended ~= "returned" then
    return why .. "."
  end
end
function programs.announced(id, body)
  running[id] = {}
  local ok, result = pcall(body)
  running[id] = nil
  if not ok then
    error(result, 0)
  end
  return result
end
function programs.run(program, next_event)
  local run = program.id and running[program.id] or {}
  if run.stopping then
    return { ended = "terminated", output = "", cut = 0, traceback = "", message = "It was not begun." }
  end
  local main, why =
    load(program.bytes, "@/" .. program.path, "t", environment(program.path, program.arguments))
  if not main then
    return { ended = "error", output = "", cut = 0, traceback = why, message = why }
  end
  run.deadline_ms = os.epoch("utc") + program.timeout_s * 1000
  run.guard, run.capture, run.timers = Guard.new(run.deadline_ms), Capture.new(), {}
  run.terminal, run.output, run.output_at_ms = run.capture.terminal, program.output or function() end, 0
  run.co = run.guard.create(xpcall)
  start_timer(run, program.timeout_s)
  feed(run, next_event, main, debug.traceback, table.unpack(program.arguments))
  local ended, traceback = finish(run, next_event)
  local output, cut = run.capture:text()
  local message = sentence(run, ended, traceback, program.timeout_s)
  return { ended = ended, output = output, cut = cut, traceback = traceback, message = message }
end
function programs.stop(id)
  local run = running[id]
  if run then
    run.stopping = true
  end
  return run ~= nil
end
function programs.screen(id)
  local run = running[id]
  return run and run.capture and run.capture:screen()
end
return programs
end

preload["running"] = function()
local answers = require("answers")
local failure = require("failure")
local files = require("files")
local params = require("params")
local programs = require("programs")
local screen = require("screen")
local sha256 = require("sha256")
local running = {}
local CODES = {
  error = "program_error",
  timed_out = "timed_out",
  terminated = "terminated",
  abandoned = "abandoned",
}
local function run(given, arguments, job)
  answers.need(given.path, "file")
  local bytes = answers.read(given.path)
  local hash = sha256.hex(bytes, job.pause)
  if hash ~= given.if_hash then
    answers.stale(hash)
  end
  local program = { path = given.path, bytes = bytes, arguments = arguments, timeout_s = given.timeout_s }
  program.id, program.output = job.call_id, job.output
  local result = programs.run(program, job.next_event)
  local data = { ended = result.ended, path = given.path, sha256 = hash }
  data.output, data.cut = #result.output, result.cut
  local ok = result.ended == "returned"
  local body = result.output .. result.traceback
  return { ok = ok, code = CODES[result.ended], message = result.message, data = data, body = body }
end
local function to_run(job, act)
  return answers.after_start(function()
    return programs.announced(job.call_id, act)
  end)
end
local function check_run(given)
  params.check(given, { "path", "if_hash", "timeout_s" })
  if given.if_hash == files.ABSENT then
    params.bad("A program that is absent cannot run.")
  end
end
function running.run_program(given, body, has_body, job)
  check_run(given)
  local arguments = params.words(body, has_body)
  return to_run(job, function()
    return run(given, arguments, job)
  end)
end
function running.shell(given, body, has_body, job)
  check_run(given)
  local list = params.words(body, has_body)
  if #list == 0 then
    params.bad("The body must name a program first.")
  end
  return to_run(job, function()
    local path = answers.program(list[1])
    if path ~= given.path then
      local actual = files.snapshot(path, job.pause).hash
      failure.raise("stale", "The word means another program now.", { actual = actual, path = path })
    end
    return run(given, { table.unpack(list, 2) }, job)
  end)
end
function running.terminate(given, body, has_body, job)
  params.check(given, { "run" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    local found = programs.stop(given.run)
    job.wake()
    return answers.done({ state = found and "stopping" or "not_running" })
  end)
end
local function shown(rows)
  for index = #rows, 1, -1 do
    if rows[index][1]:find("[^ ]") or rows[index][3]:find("[^f]") then
      return index
    end
  end
  return 0
end
function running.screen(given, body, has_body, job)
  params.check(given, { "run?" })
  params.no_body(body, has_body)
  return answers.after_start(function()
    local seen
    if given.run then
      seen = programs.screen(given.run)
    else
      seen = screen.read()
    end
    if not seen then
      local why = given.run and "This program does not run here." or "This computer's screen cannot be read."
      failure.raise("not_running", why)
    end
    local rows = seen.rows
    local list = answers.list(shown(rows), function(index)
      return { text = rows[index][1], fg = rows[index][2], bg = rows[index][3] }
    end, job.pause)
    local data = { width = seen.width, height = seen.height, x = seen.x, y = seen.y, blink = seen.blink }
    return answers.done(data, list)
  end)
end
return running
end

preload["screen"] = function()
local screen = {}
local parent, view
function screen.open()
  if not window or not window.create then
    return
  end
  parent = term.current()
  local width, height = parent.getSize()
  view = window.create(parent, 1, 1, width, height, true)
  term.redirect(view)
end
function screen.resize()
  if view and view.reposition then
    view.reposition(1, 1, parent.getSize())
  end
end
function screen.close()
  if view and term.current() == view then
    term.redirect(parent)
  end
  view = nil
end
function screen.read()
  if not view or not view.getLine then
    return nil
  end
  local width, height = view.getSize()
  local x, y = view.getCursorPos()
  local rows = {}
  for row = 1, height do
    rows[row] = { view.getLine(row) }
  end
  return { width = width, height = height, x = x, y = y, blink = view.getCursorBlink(), rows = rows }
end
return screen
end

preload["session"] = function()
local frame = require("frame")
local json = require("json")
local sha256 = require("sha256")
local transfers = require("transfers")
local Session = {}
Session.__index = Session
Session.PROTOCOL = 1
local MAX_BROKEN = 16
local SILENCE_S = 45
function Session.new(link, computer, calls, journal, log)
  local self = { link = link, computer = computer, calls = calls, journal = journal, log = log }
  self.broken, self.silence_s, self.heard_ms = 0, SILENCE_S, os.epoch("utc")
  self.welcomed, self.over, self.refused = false, false, false
  self.incoming = transfers.incoming()
  self.outgoing = transfers.outgoing(function(...)
    self:send_frame(...)
  end)
  return setmetatable(self, Session)
end
function Session:send_frame(header, bytes, described)
  if self.over then
    return
  end
  if header.type ~= "hello" and header.type ~= "error" then
    header.journal_seq = self.journal.state.seq
  end
  local message, what = frame.encode(header, bytes, described)
  if not message then
    header.data, header.message = header.data and {}, frame.short(what)
    message = frame.encode(header, bytes, described)
  end
  local ok, why = pcall(self.link.send, message)
  if not ok then
    self:finish("cannot send: " .. tostring(why))
  end
end
function Session:send(header, body, body_sha256)
  if self.over then
    return
  elseif body and #body > frame.MAX_BODY_BYTES then
    self.outgoing:add(header, body, body_sha256)
  else
    self:send_frame(header, body, body and { offset = 0, total = #body, sha256 = body_sha256 })
  end
end
function Session:complain(code, message, call_id)
  self:send({ type = "error", code = code, message = frame.short(message), call_id = call_id })
end
function Session:hello()
  local state, ids = self.journal.state, json.array({})
  for id in pairs(state.calls) do
    ids[#ids + 1] = id
  end
  table.sort(ids)
  local computer = self.computer
  self:send({
    type = "hello",
    protocol = Session.PROTOCOL,
    computer_id = computer.id,
    label = computer.label,
    host = computer.host,
    family = computer.family,
    boot = computer.boot,
    client = computer.client,
    capabilities = json.array(computer.capabilities),
    highest = state.highest,
    journal_seq = state.seq,
    found_seq = state.found_seq,
    calls = ids,
  })
end
function Session:finish(why)
  if self.over then
    return
  end
  self.over = true
  self.log("connection ended: " .. why)
  self.outgoing:close()
  self.calls:session_ended()
  pcall(self.link.close)
end
local function raise_fence(self, number, forget_found)
  local ok, why = self.journal:commit(function(state)
    state.fence = math.max(state.fence, number)
    state.highest = math.max(state.highest, number)
    if forget_found then
      state.found_seq = nil
    end
  end)
  if not ok then
    self:complain("journal_failed", why)
  end
  return ok
end
local function broken(self, code, what, call_id)
  self.broken = self.broken + 1
  self:complain(code, what, call_id)
  if self.broken > MAX_BROKEN then
    self:finish("too many broken frames")
  end
end
local HANDLERS = {}
function HANDLERS.welcome(self, message)
  if self.welcomed then
    return self:complain("out_of_order", "This session was welcomed already.")
  elseif not raise_fence(self, message.number, true) then
    return self:finish("the journal cannot be written")
  end
  self.welcomed = true
  self.silence_s = math.max(1, message.silence_s or SILENCE_S)
  self.calls.session = self
  self.log("welcome as " .. message.computer)
end
function HANDLERS.refused(self, message)
  self.refused = true
  self.log("refused: " .. message.message)
  if message.remedy and message.remedy ~= "" then
    self.log(message.remedy)
  end
  self:finish("the orchestrator refused this computer")
end
local function acknowledge_part(self, message, body)
  local offset = message.body.offset + #body
  self:send({ type = "chunk_ack", call_id = message.call_id, offset = offset })
end
function HANDLERS.call(self, message, body)
  if not message.body or message.body.total == #body then
    return self.calls:take(message, body)
  end
  acknowledge_part(self, message, body)
  if self.calls:knows(message.call_id) then
    self.calls:take(message, body)
  elseif not self.incoming:begin(message, body) then
    self.calls:refuse(message, "busy", "Too many calls are half here already.")
  end
end
function HANDLERS.chunk(self, message, body)
  acknowledge_part(self, message, body)
  local call, whole = self.incoming:go_on(message, body)
  if call then
    self.calls:take(call, whole)
  elseif whole then
    broken(self, "bad_frame", whole, message.call_id)
  end
end
function HANDLERS.chunk_ack(self, message)
  self.outgoing:acknowledged(message.call_id, message.offset)
end
local function answer_settle(self, message, queued)
  local waits = false
  for _, id in ipairs(message.call_ids) do
    if not queued[id] and self.calls:has_large_result(id) then
      queued[id], waits = true, true
      if not self.outgoing:has(id) then
        self.calls:send_result(id)
      end
    end
  end
  if waits then
    return self.outgoing:after(function()
      answer_settle(self, message, queued)
    end)
  end
  local body = json.encode(json.array(self.calls:settle(message.call_ids)))
  self:send({ type = "settled", number = message.number }, body, sha256.hex(body))
end
function HANDLERS.settle(self, message)
  if not raise_fence(self, message.number, false) then
    return
  end
  for _, id in ipairs(message.call_ids) do
    self.incoming:drop(id)
    self.calls:doom(id)
  end
  answer_settle(self, message, {})
end
function HANDLERS.result_ack(self, message)
  local ok, why = self.calls:acknowledge(message.call_id, message.number)
  if not ok then
    self:complain("not_forgotten", why, message.call_id)
  end
end
function HANDLERS.ping(self, message)
  self:send({ type = "pong", n = message.n })
end
function HANDLERS.error(self, message)
  self.log("the orchestrator says " .. frame.short(message.code .. ": " .. message.message))
  if message.call_id then
    self.outgoing:drop(message.call_id)
  end
end
local EARLY = { welcome = true, refused = true, ping = true, error = true }
function Session:receive(bytes, is_binary)
  if self.over then
    return
  end
  self.heard_ms = os.epoch("utc")
  if #bytes > frame.MAX_FRAME_BYTES then
    self:complain("too_large", "The frame has " .. #bytes .. " bytes, over " .. frame.MAX_FRAME_BYTES .. ".")
    return self:finish("a frame was too large")
  elseif is_binary == false then
    return broken(self, "bad_frame", "A frame must be binary.")
  end
  local header, body, call_id = frame.decode(bytes)
  if not header then
    return broken(self, "bad_frame", body, call_id)
  elseif not self.welcomed and not EARLY[header.type] then
    return broken(self, "not_welcomed", "A " .. header.type .. " came before welcome.", header.call_id)
  end
  local ok, why = pcall(HANDLERS[header.type], self, header, body)
  if not ok then
    self.log("internal error: " .. tostring(why))
    self:complain("internal", tostring(why), header.call_id)
  end
end
function Session:tick()
  if os.epoch("utc") - self.heard_ms > self.silence_s * 1000 then
    self:finish("heard nothing for " .. self.silence_s .. " s")
  elseif self.outgoing:is_stuck(self.silence_s * 1000) then
    self:finish("no part was acknowledged for " .. self.silence_s .. " s")
  end
end
return Session
end

preload["sha256"] = function()
local band, bnot, bxor = bit32.band, bit32.bnot, bit32.bxor
local rrotate, rshift = bit32.rrotate, bit32.rshift
local sha256 = {}
sha256.SLICE_BYTES = 8192
local WORD = 4294967296
local INITIAL, ROUND = {}, {}
local function fraction_bits(root)
  return math.floor((root % 1) * WORD)
end
local function fill_constants()
  local found, candidate = 0, 2
  while found < 64 do
    local prime = true
    for divisor = 2, math.floor(candidate ^ 0.5) do
      prime = prime and candidate % divisor ~= 0
    end
    if prime then
      found = found + 1
      ROUND[found] = fraction_bits(candidate ^ (1 / 3))
      if found <= 8 then
        INITIAL[found] = fraction_bits(candidate ^ 0.5)
      end
    end
    candidate = candidate + 1
  end
end
fill_constants()
local words = {}
local function spread(bytes, start)
  for index = 1, 16 do
    local a, b, c, d = bytes:byte(start, start + 3)
    words[index] = ((a * 256 + b) * 256 + c) * 256 + d
    start = start + 4
  end
  for index = 17, 64 do
    local w15, w2 = words[index - 15], words[index - 2]
    local s0 = bxor(rrotate(w15, 7), rrotate(w15, 18), rshift(w15, 3))
    local s1 = bxor(rrotate(w2, 17), rrotate(w2, 19), rshift(w2, 10))
    words[index] = (words[index - 16] + s0 + words[index - 7] + s1) % WORD
  end
end
local function compress(state, bytes, start)
  spread(bytes, start)
  local a, b, c, d = state[1], state[2], state[3], state[4]
  local e, f, g, h = state[5], state[6], state[7], state[8]
  for index = 1, 64 do
    local s1 = bxor(rrotate(e, 6), rrotate(e, 11), rrotate(e, 25))
    local choice = bxor(band(e, f), band(bnot(e), g))
    local t1 = h + s1 + choice + ROUND[index] + words[index]
    local s0 = bxor(rrotate(a, 2), rrotate(a, 13), rrotate(a, 22))
    local majority = bxor(band(a, b), band(a, c), band(b, c))
    h, g, f, e, d, c, b = g, f, e, (d + t1) % WORD, c, b, a
    a = (t1 + s0 + majority) % WORD
  end
  state[1], state[2] = (state[1] + a) % WORD, (state[2] + b) % WORD
  state[3], state[4] = (state[3] + c) % WORD, (state[4] + d) % WORD
  state[5], state[6] = (state[5] + e) % WORD, (state[6] + f) % WORD
  state[7], state[8] = (state[7] + g) % WORD, (state[8] + h) % WORD
end
local function padding(length)
  local zeros = (55 - length) % 64
  local bits, tail = length * 8, {}
  for index = 8, 1, -1 do
    tail[index] = string.char(bits % 256)
    bits = math.floor(bits / 256)
  end
  return "\128" .. ("\0"):rep(zeros) .. table.concat(tail)
end
local function absorb(state, bytes, pause)
  for start = 1, #bytes - 63, 64 do
    compress(state, bytes, start)
    if pause and (start + 63) % sha256.SLICE_BYTES == 0 then
      pause()
    end
  end
end
function sha256.hex(bytes, pause)
  local state = { table.unpack(INITIAL) }
  absorb(state, bytes, pause)
  local rest = bytes:sub(#bytes - #bytes % 64 + 1)
  absorb(state, rest .. padding(#bytes), nil)
  return (("%08x"):rep(8)):format(table.unpack(state))
end
return sha256
end

preload["swap"] = function()
local disk = require("disk")
local failure = require("failure")
local files = require("files")
local json = require("json")
local paths = require("paths")
local Swap = {}
Swap.__index = Swap
local MIN_ENTRY_BYTES = 500
local function swap_directory(mount)
  return paths.join(mount, disk.OWN .. "/swap")
end
local function at(mount, id)
  local stem = swap_directory(mount) .. "/" .. id
  return { mount = mount, id = id, plan = stem .. ".plan", new = stem .. ".new", old = stem .. ".old" }
end
local function copy_path(mount, id)
  return swap_directory(mount) .. "/" .. id .. ".to"
end
local function missing_directories(path)
  local cost = 0
  while path ~= "" and not files.ask(fs.exists, path) do
    cost = cost + MIN_ENTRY_BYTES
    path = paths.parent(path)
  end
  return cost
end
local function cost(bytes)
  return math.max(#bytes, MIN_ENTRY_BYTES)
end
local function tree_cost(shot)
  if shot.bytes then
    return cost(shot.bytes)
  end
  local sum = MIN_ENTRY_BYTES
  for _, entry in ipairs(shot.entries) do
    sum = sum + cost(entry.bytes or "")
  end
  return sum
end
local function need_space(mount, needed)
  local missing = needed - disk.free_bytes(mount)
  if missing > 0 then
    local sentence = "There is no room for the old and the new side by side."
    failure.raise("no_space_for_safe_write", sentence, { missing = missing })
  end
end
local function check_space(self, plan, change)
  local needed = cost(plan) + cost(change.bytes or "") + missing_directories(swap_directory(self.mount))
  if self.method == "fs_move" then
    local there = missing_directories(paths.parent(self.to))
    if self.copy then
      there = there + tree_cost(change.shot) + missing_directories(swap_directory(self.to_mount))
      need_space(self.to_mount, there)
    else
      needed = needed + there
    end
  elseif self.method ~= "fs_delete" then
    needed = needed + missing_directories(paths.parent(self.path))
  end
  need_space(self.mount, needed)
end
local function write_tree(shot, target, pause)
  if shot.bytes then
    return disk.write(target, shot.bytes)
  end
  local ok, message = disk.try(fs.makeDir, target)
  for _, entry in ipairs(shot.entries) do
    if not ok then
      break
    elseif entry.bytes then
      ok, message = disk.write(target .. "/" .. entry.path, entry.bytes)
    else
      ok, message = disk.try(fs.makeDir, target .. "/" .. entry.path)
    end
    pause()
  end
  return ok, message
end
local function make_temporaries(self, change)
  if self.copy then
    local ok, message = write_tree(change.shot, self.copy, change.pause)
    if not ok then
      return nil, message
    end
  end
  if self.method == "fs_mkdir" then
    return disk.try(fs.makeDir, self.new)
  end
  return disk.write(self.new, change.bytes or "")
end
function Swap.make(id, method, path, change)
  local self = setmetatable(at(paths.mount(path), id), Swap)
  self.method, self.path, self.after, self.to = method, path, change.after, change.to
  if self.to and paths.mount(self.to) ~= self.mount then
    self.to_mount = paths.mount(self.to)
    self.copy = copy_path(self.to_mount, id)
  end
  local plan = { method = method, path = path, after = self.after, computer = os.getComputerID() }
  plan.to, plan.to_mount = self.to, self.to_mount
  local text = json.encode(plan)
  check_space(self, text, change)
  local ok, message = disk.write(self.plan, text)
  if ok then
    ok, message = make_temporaries(self, change)
  end
  if not ok then
    self:remove()
    failure.raise_fs(message)
  end
  return self
end
local function move_to(from, to)
  local above = paths.parent(to)
  if above ~= "" and not fs.exists(above) then
    local made, message = disk.try(fs.makeDir, above)
    if not made then
      return nil, message
    end
  end
  return disk.try(fs.move, from, to)
end
local function undo(self)
  if not fs.exists(self.new) and not disk.write(self.new, "") then
    return false
  end
  return not fs.exists(self.old) or (disk.try(fs.move, self.old, self.path))
end
local function put_in_place(self)
  if self.method ~= "fs_delete" and self.method ~= "fs_move" then
    return move_to(self.new, self.path)
  end
  local ok, message = disk.try(fs.delete, self.new)
  if not ok or self.method == "fs_delete" then
    return ok, message
  end
  return move_to(self.copy or self.old, self.to)
end
function Swap:step(shot)
  if not files.is_same(shot) then
    failure.raise("stale", "What is there was changed while the call was prepared.")
  elseif self.to and files.kind(self.to) ~= "absent" then
    failure.raise("exists", "The destination was taken while the call was prepared.")
  end
  local placed, message
  if shot.kind ~= "absent" then
    placed, message = disk.try(fs.move, self.path, self.old)
    if not placed and fs.exists(self.old) then
      return false, true
    elseif not placed then
      failure.raise_fs(message)
    end
  end
  placed, message = put_in_place(self)
  if placed then
    return true
  elseif undo(self) then
    failure.raise_fs(message)
  end
  return false, true
end
function Swap:remove()
  for _, path in ipairs({ self.old, self.new, self.copy or self.new }) do
    if not disk.try(fs.delete, path) then
      return
    end
  end
  disk.try(fs.delete, self.plan)
end
function Swap:keep()
  disk.try(fs.delete, self.plan)
end
function Swap.find(id)
  for _, mount in ipairs(Swap.mounts()) do
    local self = setmetatable(at(mount, id), Swap)
    if fs.exists(self.plan) then
      self:read_plan()
      return self
    end
  end
end
function Swap.mounts()
  local mounts = { "" }
  local ok, names = disk.try(fs.list, "")
  for _, name in ipairs(ok and names or {}) do
    if paths.mount(name) == name and not fs.isReadOnly(name) then
      mounts[#mounts + 1] = name
    end
  end
  return mounts
end
function Swap:read_plan()
  local bytes = disk.read(self.plan)
  local plan = bytes and json.decode(bytes)
  if type(plan) ~= "table" or plan.computer ~= os.getComputerID() then
    return false, plan ~= nil
  end
  self.method, self.path, self.after, self.to = plan.method, plan.path, plan.after, plan.to
  if type(plan.to_mount) == "string" then
    self.to_mount, self.copy = plan.to_mount, copy_path(plan.to_mount, self.id)
  end
  local has_to = self.method ~= "fs_move" or type(self.to) == "string"
  return type(self.path) == "string" and type(self.after) == "string" and has_to
end
local function is_in_place(self)
  return paths.mount(self.path) == self.mount
    and (not self.to or paths.mount(self.to) == (self.to_mount or self.mount))
end
local function is_finished(self)
  if self.method ~= "fs_move" then
    return not fs.exists(self.new)
  elseif fs.exists(self.new) then
    return false
  elseif self.copy then
    return is_in_place(self) and not fs.exists(self.copy) and fs.exists(self.to)
  end
  return not fs.exists(self.old)
end
local function is_taken(self)
  if self.method ~= "fs_move" then
    return fs.exists(self.path)
  end
  local is_half_aside = fs.exists(self.new) and fs.exists(self.path)
  return is_half_aside or fs.exists(self.to) or not fs.exists(self.copy or self.old)
end
function Swap:decide()
  local done = { state = "ok", hash = self.after }
  if is_finished(self) then
    return done
  elseif fs.exists(self.new) and not fs.exists(self.old) then
    return { state = "failed", code = "not_done" }
  elseif not is_in_place(self) or is_taken(self) then
    return { state = "unknown" }
  end
  return put_in_place(self) and done or { state = "unknown" }
end
local function each_swap(visit)
  for _, mount in ipairs(Swap.mounts()) do
    local ok, names = disk.try(fs.list, swap_directory(mount))
    for _, name in ipairs(ok and names or {}) do
      local id = name:match("^(.*)%.plan$")
      if id then
        visit(setmetatable(at(mount, id), Swap))
      end
    end
  end
end
function Swap.decide_all(calls)
  local decisions = {}
  each_swap(function(self)
    local entry = calls[self.id]
    if entry and entry.state == "open" and self:read_plan() then
      decisions[self.id] = self:decide()
    end
  end)
  return decisions
end
function Swap.clean(calls)
  each_swap(function(self)
    local entry = calls[self.id]
    local mine, foreign = self:read_plan()
    local torn = not mine and not foreign and not fs.exists(self.old)
    local needed = entry and (entry.state == "unknown" or entry.state == "open")
    if (mine or torn) and not needed then
      self:remove()
    end
  end)
end
return Swap
end

preload["transfers"] = function()
local frame = require("frame")
local transfers = {}
local MAX_UNACKNOWLEDGED = 8
local MAX_PARTIAL = 8
local Incoming = {}
Incoming.__index = Incoming
function transfers.incoming()
  return setmetatable({ partial = {}, count = 0 }, Incoming)
end
function Incoming:begin(header, bytes)
  self:drop(header.call_id)
  if self.count >= MAX_PARTIAL then
    return false
  end
  self.count = self.count + 1
  self.partial[header.call_id] = { header = header, parts = { bytes }, size = #bytes }
  return true
end
function Incoming:go_on(header, bytes)
  local partial, described = self.partial[header.call_id], header.body
  if not partial then
    return nil
  end
  local whole = partial.header.body
  if described.offset ~= partial.size then
    self:drop(header.call_id)
    return nil, "A part begins at " .. described.offset .. "; " .. partial.size .. " bytes are here."
  elseif described.total ~= whole.total or described.sha256 ~= whole.sha256 then
    self:drop(header.call_id)
    return nil, "A part is of another body than the first part."
  end
  partial.parts[#partial.parts + 1] = bytes
  partial.size = partial.size + #bytes
  if partial.size < whole.total then
    return nil
  end
  self:drop(header.call_id)
  return partial.header, table.concat(partial.parts)
end
function Incoming:drop(id)
  if self.partial[id] then
    self.partial[id] = nil
    self.count = self.count - 1
  end
end
local Outgoing = {}
Outgoing.__index = Outgoing
function transfers.outgoing(send)
  return setmetatable({ send = send, queue = {}, unacknowledged = {}, moved_ms = 0 }, Outgoing)
end
local function send_next(self, item)
  local bytes = item.body:sub(item.offset + 1, item.offset + frame.MAX_BODY_BYTES)
  local header = item.offset == 0 and item.header or { type = "chunk", call_id = item.id }
  local described = { offset = item.offset, total = #item.body, sha256 = item.sha256 }
  item.offset = item.offset + #bytes
  if #self.unacknowledged == 0 then
    self.moved_ms = os.epoch("utc")
  end
  self.unacknowledged[#self.unacknowledged + 1] = { id = item.id, ending = item.offset }
  self.send(header, bytes, described)
end
local function pump(self)
  if self.pumping then
    return
  end
  self.pumping = true
  while self.queue[1] do
    local item = self.queue[1]
    if item.turn then
      table.remove(self.queue, 1)
      item.turn()
    elseif item.offset == #item.body then
      table.remove(self.queue, 1)
    elseif #self.unacknowledged < MAX_UNACKNOWLEDGED then
      send_next(self, item)
    else
      break
    end
  end
  self.pumping = false
end
function Outgoing:add(header, body, sha256)
  local item = { header = header, id = header.call_id, body = body, sha256 = sha256, offset = 0 }
  self.queue[#self.queue + 1] = item
  pump(self)
end
function Outgoing:after(turn)
  self.queue[#self.queue + 1] = { turn = turn }
  pump(self)
end
function Outgoing:has(id)
  for _, item in ipairs(self.queue) do
    if item.id == id then
      return true
    end
  end
  return false
end
local function acknowledged_range(self, id, offset)
  local first, last, before
  for index, one in ipairs(self.unacknowledged) do
    if one.id == id then
      if not first then
        first, last = index, index
      elseif one.ending > before and one.ending <= offset then
        last = index
      else
        break
      end
      before = one.ending
    end
  end
  return first, last
end
function Outgoing:acknowledged(id, offset)
  local first, last = acknowledged_range(self, id, offset)
  if not first then
    return
  end
  for index = last, first, -1 do
    if self.unacknowledged[index].id == id then
      table.remove(self.unacknowledged, index)
    end
  end
  self.moved_ms = os.epoch("utc")
  pump(self)
end
function Outgoing:drop(id)
  for index = #self.queue, 1, -1 do
    if self.queue[index].id == id then
      table.remove(self.queue, index)
    end
  end
  pump(self)
end
function Outgoing:is_stuck(limit_ms)
  return #self.unacknowledged > 0 and os.epoch("utc") - self.moved_ms > limit_ms
end
function Outgoing:close()
  self.queue, self.unacknowledged = {}, {}
end
return transfers
end

return require("main").run(...)
