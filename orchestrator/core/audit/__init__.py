"""The rules of the audit: chains of items, and what rows, rights and removals have to agree with."""
