--- Makes `require` and `package` for a program.
-- @module cc.require

local function search(name, path, env)
  local tried = {}
  for pattern in path:gmatch("[^;]+") do
    local file = pattern:gsub("%?", (name:gsub("%.", "/")))
    if fs.exists(file) and not fs.isDir(file) then
      local chunk, why = loadfile(file, nil, env)
      if not chunk then
        error(why, 0)
      end
      return chunk
    end
    tried[#tried + 1] = "no file '" .. file .. "'"
  end
  error("module '" .. name .. "' not found:\n  " .. table.concat(tried, "\n  "), 3)
end

--- `require` and `package` that look in a directory, then in the ROM.
local function make(env, directory)
  local package = { loaded = {}, config = "/\n;\n?\n!\n-" }
  local own = directory == "" and "" or directory .. "/"
  package.path = own
    .. "?;"
    .. own
    .. "?.lua;"
    .. own
    .. "?/init.lua;"
    .. "rom/modules/main/?;rom/modules/main/?.lua"
  local function require(name)
    if package.loaded[name] == nil then
      local value = search(name, package.path, env)(name)
      package.loaded[name] = value == nil and true or value
    end
    return package.loaded[name]
  end
  return require, package
end

return { make = make }
