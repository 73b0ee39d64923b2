"""The shipped policy, as the text that the first ``serve`` writes to ``policy.toml``."""

from typing import Final

DEFAULT_POLICY_TOML: Final = """\
# What the model may do. The strictest matching rule wins: deny, then ask, then allow.
# A tool that no rule covers is denied, or asks if it changes something.
# Paths are globs on the canonical path from the root of the computer: * within a name,
# ** across folders. Deny and ask ignore letter case, as the game does.
# What else a rule can look at, how long a request waits and how to try this file: docs/policy.md.
schema_version = 1
unknown_tool = "deny"
# Where it is known what a program changes while it runs, so that `undo` puts it back; [] where nothing shall be.
watch = ["**"]

# cc_find shows lines of any file: whoever denies cc_read somewhere should deny or ask for cc_find, too.
[[rules]]
id = "looking"
effect = "allow"
tools = ["cc_read", "cc_list", "cc_find", "cc_info", "cc_docs", "cc_screen", "local_read", "send_status", "ask_user"]
reason = "Looking changes nothing."

[[rules]]
id = "changing"
effect = "ask"
tools = ["cc_write", "cc_edit", "cc_move", "cc_mkdir", "cc_delete", "local_write", "local_patch"]
reason = "A change of files is shown to a person first."

[[rules]]
id = "running"
effect = "ask"
tools = ["cc_run_program", "cc_shell"]
reason = "A program may do anything; a person decides."

[[rules]]
id = "stopping"
effect = "ask"
tools = ["cc_stop"]
reason = "A program that somebody may need is stopped; a person decides."

# A call of a peripheral is allowed if its method is in this list; any other one is covered by no rule and asks.
# Add the methods of your own mods that only read. No rule of its own must ask: the strictest one would win.
[[rules]]
id = "peripheral-reads"
effect = "allow"
tools = ["cc_peripheral_call"]
reads = true
reason = "The method only reads."
[[rules.args]]
pointer = "/method"
in = [
    "list", "size", "getItemDetail", "getItemLimit", "tanks", "getEnergy", "getEnergyCapacity",
    "getSize", "getTextScale", "getCursorPos", "getCursorBlink", "isColour", "isColor",
    "getTextColour", "getTextColor", "getBackgroundColour", "getBackgroundColor", "getPaletteColour", "getPaletteColor",
    "getID", "getLabel", "isOn",
    "isDiskPresent", "getDiskLabel", "getDiskID", "hasData", "getMountPath", "hasAudio", "getAudioTitle",
    "getPageSize", "getPaperLevel", "getInkLevel",
    "isOpen", "isWireless", "getNameLocal", "getNamesRemote", "isPresentRemote", "getTypeRemote", "getMethodsRemote",
    "getInput", "getOutput", "getAnalogInput", "getAnalogOutput", "getAnalogueInput", "getAnalogueOutput",
    "getBundledInput", "getBundledOutput", "testBundledInput",
]

[[rules]]
id = "boot-files"
effect = "ask"
tools = ["cc_write", "cc_edit", "cc_move", "cc_mkdir", "cc_delete"]
paths = [
    "startup", "startup.lua", "startup_own*.lua", "startup/**",
    "disk*/startup", "disk*/startup.lua", "disk*/startup/**", ".settings",
]
risk = "high"
reason = "It runs at every boot of the computer."

[[rules]]
id = "rom"
effect = "deny"
tools = ["cc_write", "cc_edit", "cc_move", "cc_mkdir", "cc_delete"]
paths = ["rom", "rom/**"]
reason = "/rom is part of the game and read-only."

[[rules]]
id = "own-files"
effect = "deny"
tools = ["cc_read", "cc_list", "cc_write", "cc_edit", "cc_move", "cc_mkdir", "cc_delete", "cc_run_program"]
paths = [".cc-orchestrator", ".cc-orchestrator/**", "disk*/.cc-orchestrator", "disk*/.cc-orchestrator/**"]
risk = "critical"
reason = "The client keeps its token and its journal there."

[[rules]]
id = "command-computers"
effect = "deny"
tools = [
    "cc_write", "cc_edit", "cc_move", "cc_mkdir", "cc_delete", "cc_run_program", "cc_shell", "cc_stop",
    "cc_peripheral_call",
]
families = ["command"]
risk = "critical"
reason = "A command computer can change the whole world."

# The file is refused when one of these comes out otherwise: write one for what must never change.
[[examples]]
call = { tool = "cc_read", args = { path = "farm.lua" } }
expect = "allow"

[[examples]]
call = { tool = "cc_peripheral_call", args = { name = "left", method = "list" }, family = "turtle", plan = true }
expect = "allow"

[[examples]]
call = { tool = "cc_peripheral_call", args = { name = "left", method = "pushItems" }, family = "turtle" }
expect = "ask"

[[examples]]
call = { tool = "cc_write", args = { path = "/x/../STARTUP.lua" } }
expect = "ask"

[[examples]]
call = { tool = "cc_read", args = { path = ".cc-orchestrator/token" } }
expect = "deny"

[[examples]]
call = { tool = "cc_shell", args = { command = "exec say hello" }, computer = "3", family = "command" }
expect = "deny"
"""
