"""What stands around a simulated computer: inventories, monitors, modems, redstone, and blocks for turtles."""
