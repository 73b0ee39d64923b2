--- Burns items of the selected slot: `refuel [COUNT|all]`.
local count = ...
local ok, why = turtle.refuel(count == "all" and 64 or tonumber(count) or 1)
if ok then
  print("Fuel level is " .. tostring(turtle.getFuelLevel()))
else
  printError(why)
end
