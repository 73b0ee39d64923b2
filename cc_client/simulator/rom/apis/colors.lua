--- The sixteen colours, as powers of two.
-- @module colors

local colors = {}

local NAMES =
  "white orange magenta lightBlue yellow lime pink gray lightGray cyan purple blue brown green red black"

local value = 1
for name in NAMES:gmatch("%a+") do
  colors[name] = value
  value = value * 2
end

--- The colours of all arguments together.
function colors.combine(...)
  return bit32.bor(...)
end

--- Whether a set holds a colour.
function colors.test(set, colour)
  return bit32.band(set, colour) == colour
end

--- The digit that `term.blit` takes for a colour.
function colors.toBlit(colour)
  return ("%x"):format(math.floor(math.log(colour, 2) + 0.5))
end

return colors
