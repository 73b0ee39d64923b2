"""What the store and the bus share of PostgreSQL: connections that are sessions, and errors in plain words."""
