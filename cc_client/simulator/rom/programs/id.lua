--- Says which computer this is.
print("This is computer #" .. os.getComputerID())
local label = os.getComputerLabel()
if label then
  print('This computer is labelled "' .. label .. '"')
end
