"""The common part of store and bus on PostgreSQL: connections as sessions, and errors in plain words."""
