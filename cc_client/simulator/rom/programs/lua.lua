--- Runs lines of Lua until `exit()`.
local pack, load, pcall = table.pack, load, pcall
local going = true
local env = setmetatable({
  exit = function()
    going = false
  end,
}, { __index = _ENV })

print("Interactive Lua prompt.")
print("Call exit() to exit.")
local history = {}
while going do
  write("lua> ")
  local line = read(nil, history)
  history[#history + 1] = line
  local chunk, why = load("return " .. line, "=lua", "t", env)
  if not chunk then
    chunk, why = load(line, "=lua", "t", env)
  end
  if not chunk then
    printError(why)
  else
    local results = pack(pcall(chunk))
    if not results[1] then
      printError(results[2])
    end
    for index = 2, results[1] and results.n or 1 do
      print(
        type(results[index]) == "table" and textutils.serialize(results[index]) or tostring(results[index])
      )
    end
  end
end
