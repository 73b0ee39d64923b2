--- The safe change of a file: done, or not done, or said to be unknown, whenever the power goes.
--
-- ComputerCraft cannot replace a file in one step (`fs.move` refuses an existing target), so a
-- change has two moves. `ID.plan` and `ID.new` are made before the call is `started`; the step moves
-- what was there to `ID.old`, then `ID.new` to its place (a delete removes it instead). What is left
-- tells at boot how far the step came:
--
-- | ID.new | ID.old | the place | meaning                                             |
-- | ------ | ------ | --------- | --------------------------------------------------- |
-- | there  | -      | any       | the step did not begin: not done                    |
-- | there  | there  | free      | half way: finished now, done                        |
-- | there  | there  | taken     | somebody was faster: unknown, everything is kept    |
-- | -      | any    | any       | the step was finished: done                         |
--
-- The plan goes last, because it says whose files these are: a disk may come from another computer.
-- @module swap

local disk = require("disk")
local failure = require("failure")
local files = require("files")
local json = require("json")
local paths = require("paths")

local Swap = {}
Swap.__index = Swap

--- What ComputerCraft charges at least for a file or a directory.
local MIN_ENTRY_BYTES = 500

local function swap_directory(mount)
  return paths.join(mount, disk.OWN .. "/swap")
end

local function at(mount, id)
  local stem = swap_directory(mount) .. "/" .. id
  return { mount = mount, id = id, plan = stem .. ".plan", new = stem .. ".new", old = stem .. ".old" }
end

--- The bytes that directories on the way to `path` will cost.
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

--- Raises `no_space_for_safe_write` unless everything fits beside what is there now.
local function check_space(self, plan, bytes)
  local needed = cost(plan) + cost(bytes) + missing_directories(swap_directory(self.mount))
  if self.method == "fs_write" then
    needed = needed + missing_directories(paths.parent(self.path))
  end
  local missing = needed - disk.free_bytes(self.mount)
  if missing > 0 then
    local sentence = "There is no room for the old and the new file side by side."
    failure.raise("no_space_for_safe_write", sentence, { missing = missing })
  end
end

--- Makes the plan and the temporary; nothing of the player's is touched.
-- @tparam string id the call id
-- @tparam string method `fs_write` or `fs_delete`
-- @tparam string path canonical
-- @tparam string bytes the new bytes (a delete: empty)
-- @tparam string after the hash after the change, or `absent`
-- @return the swap. Raises a failure, with nothing left behind.
function Swap.make(id, method, path, bytes, after)
  local self = setmetatable(at(paths.mount(path), id), Swap)
  self.method, self.path, self.after = method, path, after
  local plan = json.encode({ method = method, path = path, after = after, computer = os.getComputerID() })
  check_space(self, plan, bytes)
  local ok, message = disk.write(self.plan, plan)
  if ok then
    ok, message = disk.write(self.new, bytes)
  end
  if not ok then
    self:remove()
    failure.raise_fs(message)
  end
  return self
end

--- Puts back what was moved aside after the second move failed; false: not possible either.
local function undo(self)
  return not fs.exists(self.old) or (disk.try(fs.move, self.old, self.path))
end

local function put_in_place(self)
  if self.method == "fs_delete" then
    return disk.try(fs.delete, self.new)
  end
  local above = paths.parent(self.path)
  if above ~= "" and not fs.exists(above) then
    local made, message = disk.try(fs.makeDir, above)
    if not made then
      return nil, message
    end
  end
  return disk.try(fs.move, self.new, self.path)
end

--- The step: looks again, moves the old aside and the new to its place. Never yields.
-- @tparam table shot the snapshot that was hashed
-- @treturn boolean done; a second `true` says that what became of the file is unknown
function Swap:step(shot)
  if not files.is_same(shot) then
    failure.raise("stale", "The file was changed while the call was prepared.")
  end
  local placed, message
  if shot.kind ~= "absent" then
    placed, message = disk.try(fs.move, self.path, self.old)
    if not placed and fs.exists(self.old) then
      -- Versions before 1.102 move by copying: what is where now, nobody knows.
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

--- Removes the swap files, the plan last. Failures are left for the next boot.
function Swap:remove()
  if disk.try(fs.delete, self.old) and disk.try(fs.delete, self.new) then
    disk.try(fs.delete, self.plan)
  end
end

--- Leaves the files of an unknown outcome for a person, for good: without a plan no boot removes them.
function Swap:keep()
  disk.try(fs.delete, self.plan)
end

--- The swap files of a call on whatever mount they are, or nil.
function Swap.find(id)
  for _, mount in ipairs(Swap.mounts()) do
    local self = setmetatable(at(mount, id), Swap)
    if fs.exists(self.plan) then
      return self
    end
  end
end

-- Boot --------------------------------------------------------------------------------------------

--- The roots of all mounts that there are now.
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

--- Reads the plan into the swap; false when it is torn or another computer's.
function Swap:read_plan()
  local bytes = disk.read(self.plan)
  local plan = bytes and json.decode(bytes)
  if type(plan) ~= "table" or plan.computer ~= os.getComputerID() then
    return false, plan ~= nil
  end
  self.method, self.path, self.after = plan.method, plan.path, plan.after
  return type(self.path) == "string" and type(self.after) == "string"
end

--- Finishes, or leaves, a step that the end of the power cut in two: the table above.
-- @treturn table the entry for the journal
function Swap:decide()
  local done = { state = "ok", hash = self.after }
  if not fs.exists(self.new) then
    return done
  elseif not fs.exists(self.old) then
    return { state = "failed", code = "not_done" }
  elseif fs.exists(self.path) then
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

--- Decides every open call of a journal that has swap files. Safe to be cut short and done again.
-- @treturn table call id = journal entry
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

--- Removes the swap files of this computer that no open or unknown call needs any more.
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
