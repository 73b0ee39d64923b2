"""A machine that does to real tasks whatever people, policies, computers and crashes can do, in any order."""
