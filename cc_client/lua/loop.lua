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

--- Inside a job: lets everything else have its turn.
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

--- Hands an event of the computer to the jobs; ours wakes those that wait for a slice.
function Loop:event(event)
  if event[1] == Loop.SLICE then
    self.slice_at_ms = nil
    resume_waiting(self, "slice")
  else
    resume_waiting(self, "event", event)
  end
end

--- Makes the jobs that wait for events look again, now.
function Loop:wake()
  resume_waiting(self, "event", nil)
end

--- Called about once a second: wakes the coroutines that wait for a time, and repairs lost events.
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
