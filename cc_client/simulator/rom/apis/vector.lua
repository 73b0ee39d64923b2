--- Places and directions in space.
-- @module vector

local vector, methods = {}, {}
local meta = { __index = methods }

function vector.new(x, y, z)
  return setmetatable({ x = tonumber(x) or 0, y = tonumber(y) or 0, z = tonumber(z) or 0 }, meta)
end

function methods:add(other)
  return vector.new(self.x + other.x, self.y + other.y, self.z + other.z)
end
function methods:sub(other)
  return vector.new(self.x - other.x, self.y - other.y, self.z - other.z)
end
function methods:mul(factor)
  return vector.new(self.x * factor, self.y * factor, self.z * factor)
end
function methods:div(divisor)
  return self:mul(1 / divisor)
end
function methods:unm()
  return self:mul(-1)
end
function methods:dot(other)
  return self.x * other.x + self.y * other.y + self.z * other.z
end
function methods:cross(other)
  return vector.new(
    self.y * other.z - self.z * other.y,
    self.z * other.x - self.x * other.z,
    self.x * other.y - self.y * other.x
  )
end
function methods:length()
  return math.sqrt(self:dot(self))
end
function methods:normalize()
  return self:div(self:length())
end

--- To the nearest multiple of a step, which is 1 unless told otherwise.
function methods:round(step)
  step = step or 1
  local function near(value)
    return math.floor((value + step / 2) / step) * step
  end
  return vector.new(near(self.x), near(self.y), near(self.z))
end
function methods:tostring()
  return self.x .. "," .. self.y .. "," .. self.z
end
function methods:equals(other)
  return self.x == other.x and self.y == other.y and self.z == other.z
end

meta.__add, meta.__sub, meta.__div, meta.__unm = methods.add, methods.sub, methods.div, methods.unm
meta.__eq, meta.__tostring = methods.equals, methods.tostring

--- A number may stand on either side.
function meta.__mul(a, b)
  if type(a) == "number" then
    a, b = b, a
  end
  return a:mul(b)
end

return vector
