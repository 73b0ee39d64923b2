--- Redstone: signals at six sides.
-- @module redstone

local kernel = ...
local input, output = kernel.native("redstone_input"), kernel.native("redstone_output")
local set = kernel.native("redstone_set")

local redstone = {}

function redstone.getSides()
  return { "bottom", "top", "back", "front", "right", "left" }
end

function redstone.getInput(side)
  return input(side) > 0
end

function redstone.getOutput(side)
  return output(side) > 0
end

function redstone.setOutput(side, on)
  kernel.expect(2, on, "boolean")
  set(side, on and 15 or 0)
end

redstone.getAnalogInput, redstone.getAnalogueInput = input, input
redstone.getAnalogOutput, redstone.getAnalogueOutput = output, output
redstone.setAnalogOutput, redstone.setAnalogueOutput = set, set

function redstone.getBundledInput()
  return 0
end

function redstone.getBundledOutput()
  return 0
end

function redstone.setBundledOutput() end

function redstone.testBundledInput()
  return false
end

return redstone
