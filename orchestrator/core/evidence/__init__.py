"""What the journal shows of a task, and whether that supports the success that a model claims.

The parts, from the ground up: ``words`` (verbs and files in four languages), ``reading`` (which verb is said of which
file), ``asking`` (whether a task only asks), ``keeping`` (what stays as it is), ``quoting`` (outputs, arguments, values
and quotations), ``wanted`` (what a task asks for), ``told_phrases`` (how a final tells things without a verb before
its file), ``claimed`` (what a final says), ``evidence`` (what the finished calls show, a part of the fold), ``case``
(both side by side), ``verdict`` (the rules: what a claimed success lacks) and ``report`` (the short report at the end).
"""
