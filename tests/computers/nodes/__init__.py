"""Several nodes: one set of computers, one policy, one queue."""
