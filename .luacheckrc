-- Lua 5.2 and the globals of ComputerCraft.
std = "lua52+cc"
max_line_length = 120
codes = true
exclude_files = { "cc_client/*.lua", ".venv" }

stds.cc = {
  read_globals = {
    "_HOST",
    "colors",
    "colours",
    "commands",
    "config",
    "fs",
    "http",
    "keys",
    "multishell",
    "parallel",
    "peripheral",
    "pocket",
    "printError",
    "redstone",
    "settings",
    "shell",
    "sleep",
    "term",
    "textutils",
    "turtle",
    "window",
    "write",
    os = {
      fields = {
        "computerID",
        "epoch",
        "getComputerID",
        "getComputerLabel",
        "pullEvent",
        "pullEventRaw",
        "queueEvent",
        "reboot",
        "setComputerLabel",
        "shutdown",
        "startTimer",
        "cancelTimer",
        "sleep",
        "version",
        "day",
        "run",
        "clock",
        "date",
        "time",
      },
    },
  },
}

-- The firmware and the ROM make the globals.
files["cc_client/simulator/firmware"] = { std = "lua52+cc+cc_makes" }
files["cc_client/simulator/rom"] = { std = "lua52+cc+cc_makes" }
stds.cc_makes = {
  globals = {
    "_CC_DEFAULT_SETTINGS",
    "_G",
    "_HOST",
    "colors",
    "colours",
    "commands",
    "coroutine",
    "disk",
    "dofile",
    "fs",
    "gps",
    "http",
    "keys",
    "loadfile",
    "loadstring",
    "os",
    "parallel",
    "peripheral",
    "pocket",
    "print",
    "printError",
    "read",
    "redstone",
    "rs",
    "settings",
    "shell",
    "sleep",
    "term",
    "textutils",
    "turtle",
    "unpack",
    "window",
    "write",
  },
}

-- The specs stand in for the computer.
files["tests/lua"] = { std = "lua52+cc+cc_makes" }
