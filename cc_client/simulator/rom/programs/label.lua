--- Shows or sets the label.
local verb, text = ...
if verb == "set" and text then
  os.setComputerLabel(text)
elseif verb == "clear" then
  os.setComputerLabel(nil)
end
local label = os.getComputerLabel()
print(label and 'Computer label is "' .. label .. '"' or "No computer label")
