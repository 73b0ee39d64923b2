--- The names that `bit32` had before Lua had it.
-- @module bit

return {
  band = bit32.band,
  bnot = bit32.bnot,
  bor = bit32.bor,
  bxor = bit32.bxor,
  blshift = bit32.lshift,
  brshift = bit32.arshift,
  blogic_rshift = bit32.rshift,
}
