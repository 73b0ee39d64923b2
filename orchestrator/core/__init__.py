"""The pure core: values, machines and rules; no I/O, no clock, no randomness."""
