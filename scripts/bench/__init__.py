"""The bench: what this project costs, side by side with what others cost, on this machine and in one run.

Each bench compares processes that do the same work, one of them ours. They take turns, so that a
noisy machine is noisy for both, and the median of the turns counts. CPU is user and system time
of a whole process with all its threads; wall time stands beside it.

The other frameworks are measured where they are installed (``--peers``), and no bar is held against them.
"""
