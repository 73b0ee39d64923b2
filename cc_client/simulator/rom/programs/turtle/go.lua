--- Moves the turtle: `go DIRECTION [DISTANCE] …`.
local words = { ... }
local MOVES = {
  forward = turtle.forward,
  fd = turtle.forward,
  back = turtle.back,
  bk = turtle.back,
  up = turtle.up,
  down = turtle.down,
  dn = turtle.down,
  left = turtle.turnLeft,
  lt = turtle.turnLeft,
  right = turtle.turnRight,
  rt = turtle.turnRight,
}
if #words == 0 then
  print("Usage: go <direction> <distance>")
  return
end
local index = 1
while index <= #words do
  local move = MOVES[words[index]:lower()]
  if not move then
    print("No such direction: " .. words[index])
    return
  end
  local times = tonumber(words[index + 1])
  index = index + (times and 2 or 1)
  for _ = 1, times or 1 do
    local ok, why = move()
    if not ok then
      printError(why)
      return
    end
  end
end
