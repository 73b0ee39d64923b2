--- Turns the computer off.
os.shutdown()
