"""The client side: the Lua client (lua/, bundled as client.lua) and the simulated computer."""
