--- Names drawn at random: the boot, a connection, the jitter of a delay.
--
-- `math.random` may start alike on every computer, so what differs between computers and boots is
-- hashed instead. None of it is a secret.
-- @module nonce

local sha256 = require("sha256")

local nonce = {}

local drawn, pool = 0, ""

local function draw()
  drawn = drawn + 1
  local parts = { pool, drawn, os.epoch("utc"), os.clock(), os.getComputerID(), tostring({}), math.random() }
  pool = sha256.hex(table.concat(parts, " "))
  return pool
end

--- Sixteen hex digits.
function nonce.name()
  return draw():sub(1, 16)
end

--- A number from 0 to below 1.
function nonce.fraction()
  return tonumber(draw():sub(1, 8), 16) / 4294967296
end

return nonce
