--- Where a turtle of the world is, as if hosts and a wireless modem were there; no other computer is told.
-- @module gps

local kernel = ...
local fact = kernel.native("turtle_fact")

local gps = { CHANNEL_GPS = 65534 }

function gps.locate()
  if not turtle then
    return nil
  end
  return fact("getPlace", 1), fact("getPlace", 2), fact("getPlace", 3)
end

return gps
