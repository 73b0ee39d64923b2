--- Starts the computer anew.
os.reboot()
