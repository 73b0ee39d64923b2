"""The needs of a process before its work: settings, logs, metrics, tracing, clocks."""
