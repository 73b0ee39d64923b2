--- Several functions side by side, each in its coroutine; all see every event.
-- @module parallel

local parallel = {}

local function resume(branch, ...)
  local ok, filter = coroutine.resume(branch.co, ...)
  if not ok then
    error(filter, 0)
  end
  branch.filter = filter
  return coroutine.status(branch.co) == "dead"
end

local function start(functions)
  local branches = {}
  for index, fn in ipairs(functions) do
    branches[index] = { co = coroutine.create(fn) }
  end
  return branches
end

--- Runs until `is_over(number that ended, number of all)`; returns which ended last.
local function run(functions, is_over)
  local branches, ended = start(functions), 0
  local event = table.pack()
  while true do
    for index, branch in ipairs(branches) do
      local wanted = branch.filter == nil or branch.filter == event[1] or event[1] == "terminate"
      if coroutine.status(branch.co) ~= "dead" and wanted then
        if resume(branch, table.unpack(event, 1, event.n)) then
          ended = ended + 1
          if is_over(ended, #branches) then
            return index
          end
        end
      end
    end
    event = table.pack(os.pullEventRaw())
  end
end

--- Ends when the first function ends; returns its number.
function parallel.waitForAny(...)
  return run({ ... }, function()
    return true
  end)
end

--- Ends when all functions have ended.
function parallel.waitForAll(...)
  if select("#", ...) > 0 then
    run({ ... }, function(ended, all)
      return ended == all
    end)
  end
end

return parallel
