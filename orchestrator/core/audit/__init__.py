"""The rules of the audit: chains of items, and their agreement with rows, rights and removals."""
