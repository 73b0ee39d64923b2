--- What the client knows of itself, for all modules: facts that the modules set, and its last lines.
--
-- `version server computer connected_ms` (when the welcome came; nil: not connected), `fault` and
-- `remedy` (why not, and what fixes it), `update` (a sentence about a newer client), `watched`
-- (a sentence while somebody looks at a screen from outside).
-- @module status

local status = {}

--- About two screens of a computer.
local MAX_LINES = 40

local facts, lines = {}, {}

function status.set(key, value)
  facts[key] = value
end

function status.get(key)
  return facts[key]
end

--- Notes a line; what was said just before is not said again. Whether it was new.
function status.note(text)
  local last = lines[#lines]
  if last and last.text == text then
    last.at, last.times = os.date("%H:%M"), last.times + 1
    return false
  end
  lines[#lines + 1] = { at = os.date("%H:%M"), text = text, times = 1 }
  if #lines > MAX_LINES then
    table.remove(lines, 1)
  end
  return true
end

--- The last lines, the newest at the end.
function status.lines(count)
  local texts = {}
  for index = math.max(1, #lines - count + 1), #lines do
    local line = lines[index]
    local times = line.times > 1 and (" (%d times)"):format(line.times) or ""
    texts[#texts + 1] = line.at .. " " .. line.text .. times
  end
  return texts
end

return status
