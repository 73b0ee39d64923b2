--- The parameters of a call: each is checked before a method looks at it.
-- @module params

local failure = require("failure")
local files = require("files")
local json = require("json")
local paths = require("paths")

local params = {}

local MAX_TIMEOUT_S = 86400
local MAX_FOUND = 1000

--- Raises `bad_params`.
function params.bad(what)
  failure.raise("bad_params", what)
end

local bad = params.bad
local CHECKS = {}

function CHECKS.path(value)
  if type(value) ~= "string" then
    bad("A path must be a string.")
  end
  local ok, sentence, becomes = paths.check(value)
  if not ok then
    failure.raise("bad_path", sentence, { becomes = becomes and becomes:sub(1, paths.MAX_BYTES) })
  elseif paths.is_protected(value) then
    failure.raise("access_denied", "This is the client's own directory.")
  end
end

CHECKS.to = CHECKS.path

function CHECKS.if_hash(value)
  local is_hash = type(value) == "string" and #value == 64 and value:find("^[0-9a-f]+$")
  if not is_hash and value ~= files.ABSENT then
    bad("if_hash must be a sha256 in lower-case hex, or absent.")
  end
end

function CHECKS.if_to(value)
  if value ~= files.ABSENT then
    bad("if_to must be absent.")
  end
end

function CHECKS.replaces(value)
  if value ~= "file" and value ~= "directory" then
    bad("replaces must be file or directory.")
  end
end

local function number_check(name, most)
  return function(value)
    if type(value) ~= "number" or value < 1 or value > most then
      bad(name .. " must be from 1 to " .. most .. ".")
    end
  end
end

CHECKS.timeout_s = number_check("timeout_s", MAX_TIMEOUT_S)
CHECKS.observe_s = number_check("observe_s", MAX_TIMEOUT_S)
CHECKS.max = number_check("max", MAX_FOUND)
CHECKS.old_size = number_check("old_size", 2097152)
CHECKS.input_size = number_check("input_size", 1024)

local function word_check(name)
  return function(value)
    if type(value) ~= "string" or value == "" or #value > paths.MAX_BYTES then
      bad(name .. " must be a string of 1 to " .. paths.MAX_BYTES .. " bytes.")
    end
  end
end

CHECKS.command, CHECKS.pattern = word_check("command"), word_check("pattern")
CHECKS.contains, CHECKS.run, CHECKS.of = word_check("contains"), word_check("run"), word_check("of")
CHECKS.name, CHECKS.method = word_check("name"), word_check("method")

--- Raises unless the named parameters are there, no others, and each is sound.
-- @tparam table given
-- @tparam {string} names; one with a trailing `?` may be left out
function params.check(given, names)
  local known = {}
  for _, name in ipairs(names) do
    local plain = name:gsub("%?$", "")
    known[plain] = true
    if given[plain] ~= nil or plain == name then
      CHECKS[plain](given[plain])
    end
  end
  for name in pairs(given) do
    if not known[name] then
      bad("There is a parameter that this method does not have.")
    end
  end
end

--- Raises for a path that a method found by itself and may not touch.
function params.check_path(path)
  CHECKS.path(path)
end

--- Raises when a body came where none belongs.
function params.no_body(body, has_body)
  if has_body or body ~= "" then
    bad("This method takes no body.")
  end
end

--- The body as a list of strings.
function params.words(body, has_body)
  local list, what = json.decode(has_body and body or "[]")
  if not json.is_array(list) then
    bad("The body must be a JSON list: " .. (what or "it is something else") .. ".")
  end
  for _, word in ipairs(list) do
    if type(word) ~= "string" then
      bad("The body must be a list of strings.")
    end
  end
  return list
end

return params
