--- The numbers of the keys, by name.
-- @module keys

local keys, names = {}, {}

local function define(first, list)
  for name in list:gmatch("%S+") do
    keys[name], names[first] = first, name
    first = first + 1
  end
end

define(32, "space")
define(39, "apostrophe")
define(44, "comma minus period slash zero one two three four five six seven eight nine")
define(59, "semicolon")
define(61, "equals")
define(65, "a b c d e f g h i j k l m n o p q r s t u v w x y z")
define(91, "leftBracket backslash rightBracket")
define(96, "grave")
define(257, "enter tab backspace insert delete right left down up pageUp pageDown home end")
define(280, "capsLock scrollLock numLock printScreen pause")
define(290, "f1 f2 f3 f4 f5 f6 f7 f8 f9 f10 f11 f12 f13 f14 f15")
define(320, "numPad0 numPad1 numPad2 numPad3 numPad4 numPad5 numPad6 numPad7 numPad8 numPad9 numPadDecimal")
define(331, "numPadDivide numPadMultiply numPadSubtract numPadAdd numPadEnter numPadEqual")
define(340, "leftShift leftCtrl leftAlt leftSuper rightShift rightCtrl rightAlt rightSuper menu")

keys["return"] = keys.enter

--- The name of a key, or nil.
function keys.getName(key)
  return names[key]
end

return keys
