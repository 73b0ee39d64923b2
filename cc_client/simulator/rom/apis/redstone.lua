--- Redstone: six sides, nothing attached.
-- @module redstone

local redstone, outputs = {}, {}

function redstone.getSides()
  return { "top", "bottom", "left", "right", "front", "back" }
end

function redstone.getInput()
  return false
end

function redstone.getOutput(side)
  return outputs[side] == true
end

function redstone.setOutput(side, on)
  outputs[side] = on
end

return redstone
