--- Lists the programs that the shell finds.
textutils.tabulate(shell.programs())
