"""The ``cc_*`` tools: their work on a computer, and the observation for a reviewer before it."""
