--- The screens that somebody watches from outside: a whole picture when they begin, then the rows that change.
--
-- The orchestrator says which, and for how long; a watch that it does not renew ends, so that a dead
-- orchestrator costs nothing. While nobody watches nothing is read and nothing is sent. All pictures
-- together take at most 4 kB in a second; what there is no room for waits, and goes as it is by then.
-- docs/protocol.md section 1.8 is the specification.
-- @module mirror

local json = require("json")
local monitors = require("monitors")
local palette = require("palette")
local screen = require("screen")
local sha256 = require("sha256")
local status = require("status")

local mirror = {}

--- The largest monitor at its smallest text; of a larger one its upper left part is seen.
local MAX_COLUMNS, MAX_ROWS = 162, 81
--- As many as monitors.lua keeps drawings of.
local MAX_WATCHES, MAX_SCREENS = 8, 64
local LOOK_EVERY_MS = 250
--- All frames of pictures, with what a socket puts around each, within a second and what a line may lag: so
-- that under 4 kB come in any second.
local MOST_BYTES, WITHIN_MS, AROUND_BYTES = 3900, 1200, 16
--- A header at its longest, and one row of the widest screen with a colour for each cell.
local HEADER_BYTES, ROW_BYTES = 420, 489
--- What may be under way without the orchestrator having said that it came: 6 s of it.
local MAX_UNHEARD_BYTES = 24000
--- A timer that has not come for this long was dropped.
local TIMER_LOST_MS = 2000

--- The watches in the order in which they began: `{number, of, until_ms, n, rows, state, from, unheard}`.
local watches = {}
--- The session that they belong to, the timer of the next look, and since when it runs.
local session, timer, timer_ms
--- The last frames: when and how many bytes each.
local spent = {}

-- The budget --------------------------------------------------------------------------------------

--- Bytes that may go now.
local function room(now)
  local left = MOST_BYTES
  for index = #spent, 1, -1 do
    -- A clock that was set back must not keep anything waiting.
    local age = now - spent[index].at_ms
    if age < 0 or age >= WITHIN_MS then
      table.remove(spent, index)
    else
      left = left - spent[index].bytes
    end
  end
  return left
end

local function send(header, bytes, now)
  local described = bytes and { offset = 0, total = #bytes, sha256 = sha256.hex(bytes) }
  local size = (session:send_frame(header, bytes, described) or 0) + AROUND_BYTES
  spent[#spent + 1] = { at_ms = now, bytes = size }
  return size
end

-- One screen --------------------------------------------------------------------------------------

local function look_at(of)
  if of then
    return monitors.look(of)
  end
  return screen.read()
end

--- A row as bytes: its number, its text without the blanks at its end, and runs of cells in the same colours.
local function encode(y, row)
  local text = row[1]:match("^(.-) *$")
  local fg, bg, runs = row[2], row[3], {}
  local first, width = 1, #fg
  while first <= width do
    local front, back, last = fg:byte(first), bg:byte(first), first
    while last < width and fg:byte(last + 1) == front and bg:byte(last + 1) == back do
      last = last + 1
    end
    local colours = tonumber(string.char(front), 16) * 16 + tonumber(string.char(back), 16)
    runs[#runs + 1] = string.char(last - first + 1, colours)
    first = last + 1
  end
  return string.char(y, #text) .. text .. string.char(#runs) .. table.concat(runs)
end

local function is_same(row, sent)
  return sent ~= nil and row[1] == sent[1] and row[2] == sent[2] and row[3] == sent[3]
end

--- Cuts what is larger than any picture.
local function cut(seen)
  if seen.width > MAX_COLUMNS then
    for y, row in ipairs(seen.rows) do
      seen.rows[y] = { row[1]:sub(1, MAX_COLUMNS), row[2]:sub(1, MAX_COLUMNS), row[3]:sub(1, MAX_COLUMNS) }
    end
  end
  seen.width, seen.height = math.min(seen.width, MAX_COLUMNS), math.min(seen.height, MAX_ROWS)
end

--- The rows that are not as they were sent last, as far as there is room; the next look begins where this ends.
-- @return their bytes, and the rows by their numbers
local function changed_rows(watch, seen, left)
  local parts, taken = {}, {}
  for step = 0, seen.height - 1 do
    local y = (watch.from - 1 + step) % seen.height + 1
    if not is_same(seen.rows[y], watch.rows[y]) then
      local bytes = encode(y, seen.rows[y])
      left = left - #bytes
      if left < 0 then
        watch.from = y
        break
      end
      parts[#parts + 1], taken[y] = bytes, seen.rows[y]
    end
  end
  return table.concat(parts), taken
end

local function unheard_bytes(watch)
  local bytes = 0
  for _, one in ipairs(watch.unheard) do
    bytes = bytes + one.bytes
  end
  return bytes
end

local function note(watch, size)
  watch.unheard[#watch.unheard + 1] = { n = watch.n, bytes = size }
end

--- What is said of a screen beside its rows.
local function header_of(watch, seen)
  local colours = palette.of(seen.terminal)
  local header = { type = "picture", watch = watch.number, width = seen.width, height = seen.height }
  -- Beside the screen is beside it, however far.
  header.x = math.max(0, math.min(seen.width + 1, seen.x))
  header.y = math.max(0, math.min(seen.height + 1, seen.y))
  header.blink = seen.blink == true
  header.whole = watch.size ~= seen.width .. "x" .. seen.height
  if header.whole then
    watch.rows, watch.size, watch.from, watch.colours = {}, seen.width .. "x" .. seen.height, 1, palette.GAME
  end
  header.palette = colours ~= watch.colours and colours or nil
  return header, colours
end

--- Sends what is new on a screen, if anything is.
local function show(watch, seen, now)
  cut(seen)
  local header, colours = header_of(watch, seen)
  local bytes, taken = changed_rows(watch, seen, room(now) - HEADER_BYTES - AROUND_BYTES)
  local state = table.concat({ header.x, header.y, tostring(header.blink), colours }, " ")
  if bytes == "" and not header.whole and state == watch.state then
    return
  end
  for y, row in pairs(taken) do
    watch.rows[y] = row
  end
  watch.state, watch.colours, watch.why, watch.n = state, colours, nil, watch.n + 1
  header.n = watch.n
  note(watch, send(header, bytes ~= "" and bytes or nil, now))
end

local function say_unseen(watch, why, now)
  if watch.why ~= why then
    watch.why, watch.size = why, nil
    note(watch, send({ type = "unseen", watch = watch.number, message = why }, nil, now))
  end
end

local function look(watch, now)
  if room(now) < HEADER_BYTES + ROW_BYTES + AROUND_BYTES or unheard_bytes(watch) > MAX_UNHEARD_BYTES then
    return
  end
  local ok, seen, why = pcall(look_at, watch.of)
  if not ok or not seen then
    say_unseen(watch, (tostring(ok and why or seen)):sub(1, 80), now)
  else
    show(watch, seen, now)
  end
end

-- All of them -------------------------------------------------------------------------------------

local function start_timer(now)
  if #watches > 0 and (not timer or now - timer_ms > TIMER_LOST_MS) then
    timer, timer_ms = os.startTimer(LOOK_EVERY_MS / 1000), now
  end
end

--- Who sits at the computer may know; programs are looked at only where a monitor is watched.
local function say_watched()
  local names, is_monitor_watched = {}, false
  for index, watch in ipairs(watches) do
    names[index] = watch.of and "the monitor " .. watch.of or "this screen"
    is_monitor_watched = is_monitor_watched or watch.of ~= nil
  end
  table.sort(names)
  status.set("watched", #names > 0 and "Watched from outside: " .. table.concat(names, ", ") .. "." or nil)
  monitors.watch(is_monitor_watched)
end

--- Ends the watches that nobody has renewed.
local function tidy(now)
  for index = #watches, 1, -1 do
    if now >= watches[index].until_ms then
      table.remove(watches, index)
    end
  end
  say_watched()
end

local function look_at_all()
  local now = os.epoch("utc")
  tidy(now)
  for _, watch in ipairs({ table.unpack(watches) }) do
    look(watch, now)
  end
  -- The first screen gets the room last the next time.
  table.insert(watches, (table.remove(watches, 1)))
  start_timer(now)
end

local function find(number)
  for index, watch in ipairs(watches) do
    if watch.number == number then
      return index, watch
    end
  end
end

local function begin(message, now)
  local watch = { number = message.watch, of = message.of, n = 0, rows = {}, from = 1, unheard = {} }
  for index, other in ipairs(watches) do
    if other.of == watch.of then
      table.remove(watches, index)
      break
    end
  end
  if #watches < MAX_WATCHES then
    watches[#watches + 1] = watch
  else
    say_unseen(watch, "More than " .. MAX_WATCHES .. " screens of this computer are watched.", now)
  end
  return watch
end

--- A message `watch`: begins one, renews it or ends it.
function mirror.watch(welcomed, message)
  if session ~= welcomed then
    session, watches = welcomed, {}
  end
  local now = os.epoch("utc")
  local index, watch = find(message.watch)
  if message.lease_s == 0 then
    if index then
      table.remove(watches, index)
    end
    return tidy(now)
  end
  watch = watch or begin(message, now)
  watch.until_ms = now + message.lease_s * 1000
  while watch.unheard[1] and watch.unheard[1].n <= (message.heard or 0) do
    table.remove(watch.unheard, 1)
  end
  tidy(now)
  if not index and find(message.watch) then
    look(watch, now)
  end
  start_timer(now)
end

--- A message `look`: which screens there are.
function mirror.look(welcomed, message)
  local list = {}
  local seen = screen.read()
  if seen then
    list[1] = { width = seen.width, height = seen.height }
  end
  for _, name in ipairs(monitors.names()) do
    local width, height = monitors.size(name)
    if type(width) == "number" and type(height) == "number" and #list < MAX_SCREENS then
      list[#list + 1] = { of = name, width = width, height = height }
    end
  end
  local bytes = json.encode(json.array(list))
  local described = { offset = 0, total = #bytes, sha256 = sha256.hex(bytes) }
  welcomed:send_frame({ type = "screens", look = message.look }, bytes, described)
end

--- A session has ended: nobody watches by it any more.
function mirror.disconnected(ended)
  if session == ended then
    session, watches = nil, {}
    say_watched()
  end
end

--- Handles an event of the computer.
function mirror.event(event)
  if event[1] == "timer" and event[2] == timer then
    timer = nil
    look_at_all()
  end
end

--- Whether somebody watches.
function mirror.is_busy()
  return watches[1] ~= nil
end

--- Called about once a second while somebody watches: ends what nobody renews, and repairs a timer that was lost.
function mirror.tick()
  local now = os.epoch("utc")
  tidy(now)
  start_timer(now)
end

return mirror
