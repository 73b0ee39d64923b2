--- The jobs of the client: coroutines that wait for a slice, an event or a time.
--
-- Nothing here pulls events; main.lua does, and hands each to `Loop:event`. Long work pauses by
-- queuing one event of our own and going back, so other events are neither lost nor delayed. The
-- computer drops events silently when 256 wait, ours too, so `Loop:tick` queues a lost one again.
-- @module loop

local Loop = {}
Loop.__index = Loop

-- A program may put its own into the table.
local native_create, native_resume = coroutine.create, coroutine.resume

--- Our own event.
Loop.SLICE = "cc_orchestrator_slice"
--- A slice event that has not come for this long was dropped.
local SLICE_LOST_MS = 2000
--- Seconds between two ticks where nothing is under way: each costs the game about a millisecond.
Loop.IDLE_S = 5

function Loop.new(log)
  return setmetatable({ jobs = {}, slices = {}, log = log }, Loop)
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
    self.slices[#self.slices + 1] = job
    want_slice(self)
  end
end

--- Starts a job; it runs until it first waits.
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
    -- One of those before may have woken it.
    if job.waits_for == kind then
      resume(self, job, ...)
    end
  end
end

--- Inside a job: lets everything else have its turn, the other jobs that pause among it.
function Loop.pause()
  coroutine.yield("slice")
end

--- Inside a job: the next event of the computer, packed; nil when it is only time to look again.
function Loop.next_event()
  return coroutine.yield("event")
end

--- Inside a job: waits; a second is exact to the tick of main.lua.
function Loop.sleep(seconds)
  coroutine.yield("time", os.epoch("utc") + seconds * 1000)
end

--- Hands an event of the computer to the jobs; ours wakes one that waits for a slice, the others have the next.
function Loop:event(event)
  if event[1] == Loop.SLICE then
    self.slice_at_ms = nil
    local job = table.remove(self.slices, 1)
    if job then
      resume(self, job)
    end
    if self.slices[1] then
      want_slice(self)
    end
  else
    resume_waiting(self, "event", event)
  end
end

--- Makes the jobs that wait for events look again, now.
function Loop:wake()
  resume_waiting(self, "event", nil)
end

--- Whether a job has to be looked at each second: any but one whose time is further off than an idle tick.
function Loop:is_busy()
  local soon_ms = os.epoch("utc") + Loop.IDLE_S * 1000
  for job in pairs(self.jobs) do
    if job.waits_for ~= "time" or job.at_ms <= soon_ms then
      return true
    end
  end
  return false
end

--- Wakes the coroutines that wait for a time, and repairs lost events.
function Loop:tick()
  local now, due = os.epoch("utc"), {}
  if self.slices[1] then
    want_slice(self)
  end
  for job in pairs(self.jobs) do
    if job.waits_for == "time" and now >= job.at_ms then
      due[#due + 1] = job
    end
  end
  for _, job in ipairs(due) do
    resume(self, job)
  end
  self:wake()
end

return Loop
