"""Approvals: the digest that binds one, the right to decide, the facts of a decision, and grants."""
