--- A refusal with a code of the protocol, raised inside a call and caught at its edge.
-- @module failure

local failure = {}

local mark = {
  __tostring = function(self)
    return self.code .. ": " .. self.message
  end,
}

--- Raises a failure. `data` goes into the result's data, such as `actual` or `missing`.
function failure.raise(code, message, data)
  error(setmetatable({ code = code, message = message, data = data }, mark), 0)
end

--- The failure that a caught error is; an unexpected error becomes `internal`.
function failure.of(caught)
  if type(caught) == "table" and getmetatable(caught) == mark then
    return caught
  end
  return setmetatable({ code = "internal", message = tostring(caught) }, mark)
end

local SAYINGS = {
  { "out of space", "no_space_for_safe_write" },
  { "no such file", "not_found" },
  { "access denied", "access_denied" },
  { "read.only", "read_only" },
  { "not a directory", "not_a_directory" },
  { "not a file", "is_directory" },
}

--- Raises the failure that a sentence of `fs` means.
function failure.raise_fs(sentence)
  local lower = tostring(sentence):lower()
  for _, saying in ipairs(SAYINGS) do
    if lower:find(saying[1]) then
      failure.raise(saying[2], sentence)
    end
  end
  failure.raise("internal", sentence)
end

return failure
