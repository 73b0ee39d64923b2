--- Runs specs: `lua5.2 tests/lua/run.lua [spec files]` from the top of the checkout; all without names.
-- pytest runs the same through lupa, see test_specs.py.

local SPECS = {
  "booting",
  "bundle",
  "canonical_paths",
  "capture",
  "command",
  "desk",
  "frames",
  "input",
  "installing",
  "journal",
  "json",
  "labels",
  "link",
  "main",
  "methods",
  "mirror",
  "monitors",
  "pager",
  "panel",
  "peripherals",
  "programs",
  "route",
  "session",
  "sha256",
  "shared",
  "swap",
  "transfers",
  "update",
  "values",
  "whereabouts",
  "why",
}

package.path = "cc_client/lua/?.lua;tests/lua/?.lua;" .. package.path

local names = #arg > 0 and arg or SPECS
for _, name in ipairs(names) do
  dofile("tests/lua/" .. name .. "_spec.lua")
end

local spec = require("spec")
for _, failure in ipairs(spec.failures) do
  io.stderr:write("FAILED " .. failure .. "\n")
end
io.write(("%d examples passed, %d failed\n"):format(spec.passed, #spec.failures))
os.exit(#spec.failures == 0)
