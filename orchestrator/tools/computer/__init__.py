"""The ``cc_*`` tools: what they do on a computer, and what a reviewer is shown before."""
