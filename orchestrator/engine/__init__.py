"""The engine: the task service, the actor of each task, the gate, workers, retries, undo and the active policy."""
