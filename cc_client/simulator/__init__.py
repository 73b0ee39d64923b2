"""A simulated ComputerCraft computer that runs the real Lua client in a process of its own.

The Lua is stock 5.2; the APIs are our own, after the documented behaviour of CC: Tweaked 1.116.
Whatever the mod does that surprises a program (moves that refuse a target, silent loss of events,
sockets that vanish without a close frame) is simulated, because the client must live with it.
"""
