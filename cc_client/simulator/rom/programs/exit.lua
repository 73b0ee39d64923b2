--- Ends the shell.
shell.exit()
