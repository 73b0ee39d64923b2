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

--- Red, green and blue, from 0 to 1 each, in one number.
function colors.packRGB(red, green, blue)
  return math.floor(red * 255) * 65536 + math.floor(green * 255) * 256 + math.floor(blue * 255)
end

--- The three out of one number.
function colors.unpackRGB(packed)
  return math.floor(packed / 65536) % 256 / 255, math.floor(packed / 256) % 256 / 255, packed % 256 / 255
end

return colors
