--- What a program is typed: text as the events that keys make, for one program alone.
--
-- They are handed over one by one, whenever the program waits for keys or for anything. While it waits
-- for something else, such as a timer, they wait, too, so that none is lost. As at a real keyboard, who
-- waits for `char` lets the `key` before it go.
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

--- The text as a queue: `events`, each with the place of its character, and how many were handed over.
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
  return { events = events, taken = 0, size = #text }
end

--- The next event for a program that waits with this filter; nil: it waits for something else, or all is typed.
function input.next(queue, filter)
  while filter == nil or KINDS[filter] do
    local event = queue.events[queue.taken + 1]
    if not event then
      return nil
    end
    queue.taken = queue.taken + 1
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

return input
