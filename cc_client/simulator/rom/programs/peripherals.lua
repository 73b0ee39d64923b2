--- Lists what is attached.
local names = peripheral.getNames()
print("Attached Peripherals:")
for _, name in ipairs(names) do
  print(name .. " (" .. table.concat({ peripheral.getType(name) }, ", ") .. ")")
end
if #names == 0 then
  print("None")
end
