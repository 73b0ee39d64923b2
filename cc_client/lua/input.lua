--- What a program is typed: text as the events that keys make, for one program alone.
--
-- They are handed over one by one, whenever the program waits for keys or for anything. While it waits
-- for something else, such as a timer, they wait, too, so that none is lost. As at a real keyboard, who
-- waits for `char` lets the `key` before it go.
--
-- Enter is pressed after each line. After the last line, if it has no line end of its own, it is pressed
-- only for a program that reads a line and has read this one as well: a menu that takes a single key must
-- not get an Enter that nobody meant.
-- @module input

local input = {}

--- The events that keys make.
local KINDS = { key = true, char = true, key_up = true }
--- The keys of characters, as the API `keys` calls them: their numbers differ by the version of Minecraft.
local NAMES = {
  ["\n"] = "enter",
  ["\t"] = "tab",
  ["\b"] = "backspace",
  [" "] = "space",
  ["'"] = "apostrophe",
  [","] = "comma",
  ["-"] = "minus",
  ["."] = "period",
  ["/"] = "slash",
  ["="] = "equals",
  ["["] = "leftBracket",
  ["\\"] = "backslash",
  ["]"] = "rightBracket",
  ["`"] = "grave",
  ["0"] = "zero",
  ["1"] = "one",
  ["2"] = "two",
  ["3"] = "three",
  ["4"] = "four",
  ["5"] = "five",
  ["6"] = "six",
  ["7"] = "seven",
  ["8"] = "eight",
  ["9"] = "nine",
}
--- Where a computer has no such name.
local KEYS = { ["\n"] = 257, ["\t"] = 258, ["\b"] = 259 }

--- The number of a character's key, where it has one without shift.
function input.key_of(char)
  if not KEYS[char] and not char:find("[%w ',./;=%[%]\\`-]") then
    return nil
  end
  local known = type(keys) == "table" and keys or {}
  local key = known[NAMES[char] or char:lower()]
  if char == ";" then
    -- Two spellings, by version.
    key = known.semicolon or known.semiColon
  end
  return type(key) == "number" and key or KEYS[char] or char:upper():byte()
end

--- The text as a queue: `events`, each with the place of its character, how many were handed over, and
-- `needs_enter`: whether its last line has no line end yet.
function input.queue(text)
  local events = {}
  for at = 1, #text do
    local char = text:sub(at, at)
    local key = input.key_of(char)
    if key then
      events[#events + 1] = { "key", key, false, at = at }
    end
    if not char:find("%c") then
      events[#events + 1] = { "char", char, at = at }
    end
    if key then
      events[#events + 1] = { "key_up", key, at = at }
    end
  end
  return { events = events, taken = 0, size = #text, needs_enter = text:sub(-1) ~= "\n" }
end

--- Adds the Enter after the last line.
local function press_enter(queue)
  local events, enter = queue.events, input.key_of("\n")
  events[#events + 1] = { "key", enter, false, at = queue.size }
  events[#events + 1] = { "key_up", enter, at = queue.size }
  queue.needs_enter = false
end

--- The next event for a program that waits; nil: it waits for something else, or all is typed.
-- @tparam table queue what `input.queue` made
-- @tparam ?string filter the event that it waits for; nil: any
-- @tparam boolean is_reading whether it reads a line
function input.next(queue, filter, is_reading)
  while filter == nil or KINDS[filter] do
    if queue.taken == #queue.events and queue.needs_enter and queue.is_reading and is_reading then
      press_enter(queue)
    end
    local event = queue.events[queue.taken + 1]
    if not event then
      return nil
    end
    queue.taken = queue.taken + 1
    if event[1] ~= "key_up" then
      -- All of a character has to be read as a part of a line: its key may have answered another question.
      queue.is_reading = is_reading and (queue.is_reading or event.at ~= queue.at)
      queue.at = event.at
    end
    if filter == nil or filter == event[1] then
      return event
    end
  end
end

--- The bytes of the text that nobody has read.
function input.left(queue)
  local last = queue.events[queue.taken]
  return queue.size - (last and last.at or 0)
end

-- What is waited for -----------------------------------------------------------------------------

--- What a program that reads a line waits for, and one that waits for nothing.
local READS = "read()"
input.BUSY = "busy()"
--- The order in which they are told: what a person can give first, the passing of time last.
local RANKS = { [READS] = 1, key = 2, char = 3, key_up = 4, paste = 5, alarm = 8, timer = 9 }
local MAX_NAMES, MAX_NAME_BYTES = 4, 40

--- The events that a program waits for, as text: names with ", " between, the most telling first; empty: any.
-- @tparam table names a set of names, `""` for any event
-- @tparam boolean is_reading whether it reads a line
function input.wanted(names, is_reading)
  local list = {}
  for name in pairs(names) do
    if name == "" and is_reading then
      list[#list + 1] = READS
    elseif name ~= "" then
      -- A program may wait for any text.
      list[#list + 1] = (name:sub(1, MAX_NAME_BYTES):gsub("[^%w_%-.:()]", "?"))
    end
  end
  if names[""] and not is_reading then
    return ""
  end
  table.sort(list, function(one, other)
    local first, second = RANKS[one] or 7, RANKS[other] or 7
    return first < second or first == second and one < other
  end)
  return table.concat(list, ", ", 1, math.min(#list, MAX_NAMES))
end

return input
