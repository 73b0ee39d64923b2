"""The programs for a terminal: command line, console reviewer, terminal UI, doctor and evaluation."""
