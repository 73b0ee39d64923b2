--- Peripherals: this computer has none.
-- @module peripheral

local peripheral = {}

function peripheral.getNames()
  return {}
end

function peripheral.isPresent()
  return false
end

function peripheral.getType() end

function peripheral.getMethods() end

function peripheral.wrap() end

function peripheral.find() end

function peripheral.call()
  error("No peripheral attached", 2)
end

return peripheral
