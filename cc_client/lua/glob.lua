--- Globs on paths: `*` within a name, `**` across names, `?` one byte that is no `/`.
--
-- `**/` also matches nothing at all, and so does `/**` at the end. A pattern becomes a list of tokens,
-- and all places in it where a path may stand are followed at once, so no pattern takes long.
-- @module glob

local SLASH = ("/"):byte()

--- What follows `**` in the pattern, as tokens. A `fork` may go on behind the next two.
local SPECIAL = {
  { "^/%*%*$", { "fork", SLASH, "any" } },
  { "^%*%*/", { "fork", "any", SLASH } },
  { "^%*%*", { "any" } },
  { "^%*", { "name" } },
  { "^%?", { "one" } },
}

local function special_at(pattern, position)
  local rest = pattern:sub(position)
  for _, special in ipairs(SPECIAL) do
    local _, last = rest:find(special[1])
    if last then
      return special[2], last
    end
  end
  return { pattern:byte(position) }, 1
end

local function tokens_of(pattern)
  local tokens, position = {}, 1
  while position <= #pattern do
    local found, length = special_at(pattern, position)
    for _, token in ipairs(found) do
      tokens[#tokens + 1] = token
    end
    position = position + length
  end
  return tokens
end

--- Adds a place, and those that are reached from it without a byte.
local function add(tokens, places, index)
  if places[index] then
    return
  end
  places[index] = true
  local token = tokens[index]
  if token == "name" or token == "any" or token == "fork" then
    add(tokens, places, index + 1)
  end
  if token == "fork" then
    add(tokens, places, index + 3)
  end
end

local function after_byte(tokens, places, byte)
  local reached = {}
  for index in pairs(places) do
    local token = tokens[index]
    if token == "any" or token == "name" and byte ~= SLASH then
      add(tokens, reached, index)
    elseif token == byte or token == "one" and byte ~= SLASH then
      add(tokens, reached, index + 1)
    end
  end
  return reached
end

--- A function that says whether a path matches the pattern.
return function(pattern)
  local tokens = tokens_of((pattern:gsub("^/+", "")))
  return function(path)
    local places = {}
    add(tokens, places, 1)
    for position = 1, #path do
      places = after_byte(tokens, places, path:byte(position))
      if next(places) == nil then
        return false
      end
    end
    return places[#tokens + 1] == true
  end
end
