--- What the client has as globals: copies of the game's, made when it is loaded, before any program runs.
--
-- A program that replaces `http.websocketAsync`, `string.gsub` or `pairs` changes tables that it shares with others,
-- and not these. `_G` is the true one: what the client puts into the game, it puts there by name. So are `shell` and
-- `multishell`, which the game makes for each program (see `shared`).
-- @module kept

--- What belongs to the program that loads the client, not to the client.
local OF_THE_LOADER = { _ENV = true, arg = true, package = true, require = true }

local function copy(owner)
  local own = {}
  for name, value in next, owner do
    own[name] = value
  end
  return own
end

--- The globals of the client.
-- @tparam table outer those of the program that loads it
return function(outer)
  local own = copy(_G)
  for name, value in next, own do
    if type(value) == "table" and value ~= _G then
      own[name] = copy(value)
    end
  end
  for name, value in next, outer do
    if outer ~= _G and not OF_THE_LOADER[name] then
      own[name] = value
    end
  end
  own._G = _G
  own.package, own._ENV = nil, nil
  return own
end
