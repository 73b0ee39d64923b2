--- What kind of computer this is, as the protocol names it.
-- @module family

return function()
  if turtle then
    return "turtle"
  elseif pocket then
    return "pocket"
  elseif commands then
    return "command"
  end
  return term.isColour() and "advanced" or "computer"
end
