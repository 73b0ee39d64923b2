--- Drives by their names, for programs that do not wrap them.
-- @module disk

local disk = {}

local METHODS = {
  isPresent = "isDiskPresent",
  hasData = "hasData",
  getMountPath = "getMountPath",
  getLabel = "getDiskLabel",
  setLabel = "setDiskLabel",
  getID = "getDiskID",
  hasAudio = "hasAudio",
  eject = "ejectDisk",
}

for name, method in pairs(METHODS) do
  disk[name] = function(drive, ...)
    if peripheral.getType(drive) == "drive" then
      return peripheral.call(drive, method, ...)
    end
    if name == "isPresent" or name == "hasData" or name == "hasAudio" then
      return false
    end
    return nil
  end
end

return disk
