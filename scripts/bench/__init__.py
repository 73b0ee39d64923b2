"""The bench: what this project costs, side by side with what others cost, on this machine and in one run.

Each bench compares processes that do the same work, one of them ours. They take turns, so that a
noisy machine is noisy for both, and the median of the turns counts. CPU is user and system time
of a whole process with all its threads; wall time stands beside it.

The other frameworks are measured where they are installed, and no bar is held against them. They are
no extra of this project, since their dependencies and its own want to be resolved apart; in a second
step, into the environment that the first run of the bench made, this takes seconds::

    .venv/bin/python -m pip install langchain langgraph langgraph-checkpoint-sqlite

(``uv pip install --python .venv ...`` where uv made it.)
"""
