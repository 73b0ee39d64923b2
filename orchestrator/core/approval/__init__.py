"""Approvals: what one is bound to, who decides, what a decision becomes, and grants."""
