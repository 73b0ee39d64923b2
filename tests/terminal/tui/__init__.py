"""The terminal UI, driven by its pilot and on real pseudo terminals."""
