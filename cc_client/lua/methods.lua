--- What a call can do: one function for each method of docs/protocol.md section 1.6.
--
-- A method takes its parameters and prepares: it may look and hash, and make swap files, but touches
-- nothing of the player's. It returns `{act, swap}`; `act` runs after the call is durably `started`
-- and returns the outcome `{ok, code, message, data, body, body_sha256, hash, unknown}`. Whoever cannot
-- go on raises a failure. Its arguments: the parameters, the body, whether there was one, and the job:
-- `{call_id, body_sha256, pause, next_event, spawn, wake, output}`.
-- @module methods

local methods = {}

local PARTS = {
  require("looking"),
  require("finding"),
  require("changing"),
  require("running"),
  require("about"),
  require("peripherals"),
}

for _, part in ipairs(PARTS) do
  for method, prepare in pairs(part) do
    methods[method] = prepare
  end
end

return methods
