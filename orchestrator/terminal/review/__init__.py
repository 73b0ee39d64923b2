"""The decision model: requests that wait, words that decide them, and sending; the console and the TUI draw it.

Theory. A skin has input and drawing only. Which words a request takes, the decision that carries the digests of what
was shown, the fold of what the reviewers' channel tells, and the sentences about an outcome are here, once.
"""
