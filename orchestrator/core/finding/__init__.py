"""What the journal shows of a task, and whether that supports the success that a model claims.

The parts, from the ground up: ``asking`` (whether a task only asks), ``words`` (verbs, files and clauses in four
languages), ``wanted`` (what a task asks for), ``claimed`` (what a final says), ``evidence`` (what the finished calls
show, a part of the fold), ``verdict`` (what a claimed success lacks) and ``report`` (the short report at the end).
"""
