"""What the journal shows of a task, and whether that supports the success that a model claims.

patterns       tables of patterns, of which those are tried whose words a text has
words          verbs, files and clauses of a text, in four languages
sentences      which verb a sentence says of which file
orders         other ways to put an order, each as its plain imperative; ``idioms`` is its table
questions      whether a task only asks
quotations     outputs, arguments, values and quotations in a text
wanted         what a task asks for
claims         what a final message says; ``claim_phrases`` is its table
evidence       what the finished calls show, a part of the fold
case           the task's words, the claims and the evidence side by side
verdict        the rules: what a claimed success lacks
report         the short report at the end of every task
user_checks    the language of the checks that a task brings with it; ``checks`` is how far they are
"""
