--- The labels that this computer has had, until the server says that it keeps them.
--
-- A policy may deny or ask by label, so a label must be told before the answer of the call that set it. The label
-- is compared with the last one at each event, before each message, and after each `os.setComputerLabel` of a
-- program. What cannot be seen: a player's own program that sets a label and takes it back within one event.
-- @module labels

local Guard = require("guard")

local labels = {}

-- Ours, before any program can put others in their place: `labels.set` runs in the turn of a program.
local get, set = os.getComputerLabel, os.setComputerLabel
local ipairs, rawequal, remove, sub = ipairs, rawequal, table.remove, string.sub

--- Cut so that it fits a header also with every byte escaped.
local MAX_BYTES = 64
--- More different ones than the server keeps.
local MAX_WAITING = 40

local current
--- Those that the server has not confirmed, the newest last: `{n, label}`.
local waiting, last = {}, 0

local function read()
  -- In parentheses: it returns no value at all for a computer without a label.
  local label = get and (get())
  return label and sub(label, 1, MAX_BYTES)
end

--- Begins with the label of now, which hello names.
function labels.begin()
  get, set = os.getComputerLabel, os.setComputerLabel
  current, waiting, last = read(), {}, 0
end

--- Looks at the label, and notes a new one. It is noted first: the guard may end a program at any instruction here.
function labels.look()
  local label = read()
  if rawequal(label, current) then
    return
  end
  last = last + 1
  waiting[#waiting + 1] = { n = last, label = label }
  current = label
  for index, entry in ipairs(waiting) do
    if entry.n < last and rawequal(entry.label, label) then
      remove(waiting, index)
      break
    end
  end
  if #waiting > MAX_WAITING then
    remove(waiting, 1)
  end
end

--- The label of now.
function labels.now()
  labels.look()
  return current
end

--- The next one with a number above `n`; nil: there is none.
function labels.after(n)
  labels.look()
  for _, entry in ipairs(waiting) do
    if entry.n > n then
      return entry
    end
  end
end

--- The server keeps all labels up to this number.
function labels.kept(n)
  while waiting[1] and waiting[1].n <= n do
    remove(waiting, 1)
  end
end

--- `os.setComputerLabel` for a program: each label that it sets is noted.
function labels.set(...)
  set(...)
  labels.look()
end

Guard.owns(labels.set)

return labels
