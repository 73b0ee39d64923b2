--- SHA-256 in plain Lua 5.2 arithmetic, in slices.
--
-- 1 MB takes 0.7 s in stock Lua and several times that in the game, so the caller passes a
-- `pause` function; it is called after every 2 KiB and may yield.
-- @module sha256

local band, bor, bxor = bit32.band, bit32.bor, bit32.bxor
local rrotate, rshift = bit32.rrotate, bit32.rshift

local sha256 = {}

--- Bytes hashed between two pauses: 1.2 ms in stock Lua, 4 ms in the game, three times that before Java has
-- compiled what runs them.
sha256.SLICE_BYTES = 2048

local WORD = 4294967296
local INITIAL, ROUND = {}, {}

--- The first 32 bits of the fraction of a root: how FIPS 180-4 defines the constants.
local function fraction_bits(root)
  return math.floor((root % 1) * WORD)
end

local function fill_constants()
  local found, candidate = 0, 2
  while found < 64 do
    local prime = true
    for divisor = 2, math.floor(candidate ^ 0.5) do
      prime = prime and candidate % divisor ~= 0
    end
    if prime then
      found = found + 1
      ROUND[found] = fraction_bits(candidate ^ (1 / 3))
      if found <= 8 then
        INITIAL[found] = fraction_bits(candidate ^ 0.5)
      end
    end
    candidate = candidate + 1
  end
end
fill_constants()

local words = {}

local function spread(bytes, start)
  for index = 1, 16 do
    local a, b, c, d = bytes:byte(start, start + 3)
    words[index] = ((a * 256 + b) * 256 + c) * 256 + d
    start = start + 4
  end
  for index = 17, 64 do
    local w15, w2 = words[index - 15], words[index - 2]
    local s0 = bxor(rrotate(w15, 7), rrotate(w15, 18), rshift(w15, 3))
    local s1 = bxor(rrotate(w2, 17), rrotate(w2, 19), rshift(w2, 10))
    words[index] = bor(words[index - 16] + s0 + words[index - 7] + s1)
  end
end

--- One block. In the game each call of a function costs as much as several operations, so the majority and the
-- choice of FIPS 180-4 are sums where no bit of one is in the other, and `bor` takes a sum modulo 2^32.
local function compress(state, bytes, start)
  spread(bytes, start)
  -- A local is nearer than an upvalue.
  local band, bor, bxor, rrotate, words, ROUND = band, bor, bxor, rrotate, words, ROUND -- luacheck: ignore 431
  local a, b, c, d = state[1], state[2], state[3], state[4]
  local e, f, g, h = state[5], state[6], state[7], state[8]
  for index = 1, 64 do
    local s1 = bxor(rrotate(e, 6), rrotate(e, 11), rrotate(e, 25))
    local choice = band(e, f) + g - band(e, g)
    local t1 = h + s1 + choice + ROUND[index] + words[index]
    local s0 = bxor(rrotate(a, 2), rrotate(a, 13), rrotate(a, 22))
    local differ = bxor(a, b)
    local majority = (a + b - differ) / 2 + band(c, differ)
    h, g, f, e, d, c, b, a = g, f, e, bor(d + t1), c, b, a, bor(t1 + s0 + majority)
  end
  state[1], state[2] = (state[1] + a) % WORD, (state[2] + b) % WORD
  state[3], state[4] = (state[3] + c) % WORD, (state[4] + d) % WORD
  state[5], state[6] = (state[5] + e) % WORD, (state[6] + f) % WORD
  state[7], state[8] = (state[7] + g) % WORD, (state[8] + h) % WORD
end

local function padding(length)
  local zeros = (55 - length) % 64
  local bits, tail = length * 8, {}
  for index = 8, 1, -1 do
    tail[index] = string.char(bits % 256)
    bits = math.floor(bits / 256)
  end
  return "\128" .. ("\0"):rep(zeros) .. table.concat(tail)
end

local function absorb(state, bytes, pause)
  for start = 1, #bytes - 63, 64 do
    compress(state, bytes, start)
    if pause and (start + 63) % sha256.SLICE_BYTES == 0 then
      pause()
    end
  end
end

--- The sha256 of `bytes` in lower-case hex; calls `pause` (may be nil) after each slice.
-- `words` is shared, but never across a pause, so several hashes may be under way at once.
function sha256.hex(bytes, pause)
  local state = { table.unpack(INITIAL) }
  absorb(state, bytes, pause)
  local rest = bytes:sub(#bytes - #bytes % 64 + 1)
  absorb(state, rest .. padding(#bytes), nil)
  return (("%08x"):rep(8)):format(table.unpack(state))
end

--- A text with each byte mixed with another one, filled up to a block.
local function padded(key, mix)
  local list = {}
  for index = 1, 64 do
    list[index] = string.char(bxor(key:byte(index) or 0, mix))
  end
  return table.concat(list)
end

--- The HMAC of a short text in lower-case hex (RFC 2104); `key` has at most 64 bytes.
function sha256.hmac(key, text)
  local digest = sha256.hex(padded(key, 54) .. text):gsub("%x%x", function(pair)
    return string.char(tonumber(pair, 16))
  end)
  return sha256.hex(padded(key, 92) .. digest)
end

return sha256
