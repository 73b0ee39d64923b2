"""Moves a whole store: to a file and back, to another engine, with an inspection before and after."""
