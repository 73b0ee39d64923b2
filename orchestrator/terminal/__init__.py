"""What people use in a terminal: command line, console reviewer, terminal UI, doctor and evaluation."""
