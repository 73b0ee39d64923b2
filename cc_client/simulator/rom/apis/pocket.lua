--- The pocket computer's upgrades: there are none to change.
-- @module pocket

local function nothing()
  return false, "Cannot find a valid upgrade"
end

return { equipBack = nothing, unequipBack = nothing }
