"""What a process needs before it does anything: settings, logs, metrics, tracing, clocks."""
