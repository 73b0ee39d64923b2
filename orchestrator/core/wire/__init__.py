"""The protocols: messages of computers and of reviewers, and the session of one computer."""
