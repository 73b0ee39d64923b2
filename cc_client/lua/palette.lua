--- The 16 colours of a terminal, as the wire says them: red, green and blue of each in two digits, white first.
-- @module palette

local palette = {}

--- As the game begins with them.
palette.GAME = "f0f0f0f2b233e57fd899b2f2dede6c7fcc19f2b2cc4c4c4c"
  .. "9999994c99b2b266e53366cc7f664c57a64ecc4c4c111111"

local function digits(light)
  light = type(light) == "number" and light == light and light or 0
  return ("%02x"):format(math.floor(math.max(0, math.min(1, light)) * 255 + 0.5))
end

--- Red, green and blue from 0 to 1 of a colour by its number from 0, as the game begins with it.
function palette.light(index)
  local at = index * 6
  local function part(first)
    return tonumber(string.sub(palette.GAME, at + first, at + first + 1), 16) / 255
  end
  return part(1), part(3), part(5)
end

--- All colours of a terminal; one that has none, as cheap computers and monitors do, shows each as a grey.
function palette.of(terminal)
  local grey = terminal.isColour and not terminal.isColour()
  local get, parts = terminal.getPaletteColour, {}
  for index = 0, 15 do
    local ok, red, green, blue = pcall(get, 2 ^ index)
    if not ok or type(blue) ~= "number" then
      red, green, blue = palette.light(index)
    end
    if grey then
      red = (red + green + blue) / 3
      green, blue = red, red
    end
    parts[index + 1] = digits(red) .. digits(green) .. digits(blue)
  end
  return table.concat(parts)
end

return palette
