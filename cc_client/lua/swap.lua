--- The safe change of files: done, or not done, or said to be unknown, whenever the power goes.
--
-- ComputerCraft cannot replace a file in one step (`fs.move` refuses an existing target), so a
-- change has several moves. `ID.plan` and `ID.new` are made before the call is `started`; the step
-- moves what was there to `ID.old`, then `ID.new` to its place (a delete and a move remove it instead),
-- and then, for a move, `ID.old` to its destination. What is left tells at boot how far the step came.
-- "The place" is where `ID.new` goes: of write, edit, delete and mkdir their path.
--
-- | ID.new | ID.old | the place | write, edit, delete, mkdir                          |
-- | ------ | ------ | --------- | --------------------------------------------------- |
-- | there  | -      | any       | the step did not begin: not done                    |
-- | there  | there  | free      | half way: finished now, done                        |
-- | there  | there  | taken     | somebody was faster: unknown, everything is kept    |
-- | -      | any    | any       | the step was finished: done                         |
--
-- | ID.new | ID.old | path      | to    | move                                        |
-- | ------ | ------ | --------- | ----- | ------------------------------------------- |
-- | there  | -      | any       | any   | the step did not begin: not done            |
-- | there  | there  | taken     | any   | unknown, everything is kept                 |
-- | any    | there  | free, any | free  | half way: finished now, done                |
-- | any    | there  | free, any | taken | somebody was faster: unknown, all is kept   |
-- | -      | -      | any       | any   | the step was finished: done                 |
--
-- To another disk nothing can be moved in one step. So a move across disks has a copy made there
-- before `started`, `ID.to`; the step moves that to the destination at the end, and `ID.old` stays until
-- the outcome is recorded. In the table `ID.to` then stands for `ID.old` where `ID.new` is gone; when
-- neither it nor the destination is there, the disk may be another one: unknown.
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
--- Room on the computer's own disk that a change which makes room may take: its plan, its `ID.new`, the
-- directory of both. Nothing is in this file, so it may be there or not whenever the power goes.
local SPARE, SPARE_BYTES = disk.OWN .. "/spare", 2048

local function swap_directory(mount)
  return paths.join(mount, disk.OWN .. "/swap")
end

local function at(mount, id)
  local stem = swap_directory(mount) .. "/" .. id
  return { mount = mount, id = id, plan = stem .. ".plan", new = stem .. ".new", old = stem .. ".old" }
end

--- The copy on the other disk that a move across disks makes.
local function copy_path(mount, id)
  return swap_directory(mount) .. "/" .. id .. ".to"
end

--- The highest directory above a path that is not there, or nil.
local function highest_missing(path)
  local highest
  path = paths.parent(path)
  while path ~= "" and not files.ask(fs.exists, path) do
    highest, path = path, paths.parent(path)
  end
  return highest
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

--- What the copy of a snapshot will cost.
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

--- Makes the spare file, and the directory that a delete needs, where they are missing and there is room.
function Swap.keep_spare()
  disk.try(fs.makeDir, swap_directory(""))
  local found, size = disk.try(fs.getSize, SPARE)
  if found and size == SPARE_BYTES then
    return
  elseif disk.free_bytes("") >= SPARE_BYTES and not disk.write(SPARE, ("-"):rep(SPARE_BYTES)) then
    disk.try(fs.delete, SPARE)
  end
end

--- Raises `no_space_for_safe_write` unless so many bytes are free on a mount.
local function need_space(mount, needed)
  local missing = needed - disk.free_bytes(mount)
  if missing > 0 then
    local sentence = "There is no room for the old and the new side by side."
    local data = { missing = missing, biggest = files.biggest(mount), mount = mount ~= "" and mount or nil }
    failure.raise("no_space_for_safe_write", sentence, data)
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
  local makes_room = self.method == "fs_delete" or self.copy
  if makes_room and self.mount == "" and disk.free_bytes("") < needed then
    disk.try(fs.delete, SPARE)
  end
  need_space(self.mount, needed)
end

--- Writes a snapshot to another place; true, or nil and a sentence.
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

--- Makes everything but the plan; true, or nil and a sentence.
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

--- Makes the plan and the temporaries; nothing of the player's is touched.
-- @tparam string id the call id
-- @tparam string method such as `fs_write`
-- @tparam string path canonical
-- @tparam table change `after`, the hash of what it makes, or `absent`; of a write and an edit the
-- `bytes`; of a move `to`, `shot` (the snapshot of what is moved) and `pause`
-- @return the swap. Raises a failure, with nothing left behind.
function Swap.make(id, method, path, change)
  local self = setmetatable(at(paths.mount(path), id), Swap)
  self.method, self.path, self.after, self.to = method, path, change.after, change.to
  if self.to and paths.mount(self.to) ~= self.mount then
    self.to_mount = paths.mount(self.to)
    self.copy = copy_path(self.to_mount, id)
  end
  self.made = highest_missing(self.to or path)
  local plan = { method = method, path = path, after = self.after, computer = os.getComputerID() }
  plan.made = self.made
  plan.to, plan.to_mount = self.to, self.to_mount
  local text = json.encode(plan)
  local has_room, refused = pcall(check_space, self, text, change)
  if not has_room then
    Swap.keep_spare()
    error(refused, 0)
  end
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

--- Moves to a place whose directories may have to be made.
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

--- Takes away the directories that the step made on its way to where nothing came, but for what is in them.
local function unmake(self)
  local above = paths.parent(self.to or self.path)
  while self.made and #above >= #self.made do
    if fs.exists(above) then
      local listed, names = disk.try(fs.list, above)
      if not listed or names[1] or not disk.try(fs.delete, above) then
        return
      end
    end
    above = paths.parent(above)
  end
end

--- Puts back what was moved aside after a later part of the step failed; false: not possible either.
-- Without `ID.new` a boot would take the step for finished, so that comes back first.
local function undo(self)
  if not fs.exists(self.new) and not disk.write(self.new, "") then
    return false
  elseif fs.exists(self.old) and not disk.try(fs.move, self.old, self.path) then
    return false
  end
  unmake(self)
  return true
end

--- What is left of the step after the old was moved aside.
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

--- The step: looks again, moves the old aside and the new to its place. Never yields.
-- @tparam table shot the snapshot that was hashed
-- @treturn boolean done; a second `true` says that what became of the file is unknown
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
  for _, path in ipairs({ self.old, self.new, self.copy or self.new }) do
    if not disk.try(fs.delete, path) then
      return
    end
  end
  disk.try(fs.delete, self.plan)
  Swap.keep_spare()
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
      self:read_plan()
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
  self.method, self.path, self.after, self.to = plan.method, plan.path, plan.after, plan.to
  self.made = type(plan.made) == "string" and plan.made or nil
  if type(plan.to_mount) == "string" then
    self.to_mount, self.copy = plan.to_mount, copy_path(plan.to_mount, self.id)
  end
  local has_to = self.method ~= "fs_move" or type(self.to) == "string"
  return type(self.path) == "string" and type(self.after) == "string" and has_to
end

--- Whether the paths of the plan still lead to the disks that they led to.
local function is_in_place(self)
  return paths.mount(self.path) == self.mount
    and (not self.to or paths.mount(self.to) == (self.to_mount or self.mount))
end

--- Whether the step was finished, as far as what it leaves behind tells.
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

--- Whether somebody stands in the way of what is left of a step.
local function is_taken(self)
  if self.method ~= "fs_move" then
    return fs.exists(self.path)
  end
  -- Versions before 1.102 move by copying: where the old is in both places, one may be half a copy.
  local is_half_aside = fs.exists(self.new) and fs.exists(self.path)
  return is_half_aside or fs.exists(self.to) or not fs.exists(self.copy or self.old)
end

--- Finishes, or leaves, a step that the end of the power cut in two: the tables above.
-- @treturn table the entry for the journal
function Swap:decide()
  local done = { state = "ok", hash = self.after }
  if is_finished(self) then
    return done
  elseif fs.exists(self.new) and not fs.exists(self.old) then
    unmake(self)
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
