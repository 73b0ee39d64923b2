"""The past: the audit, checkpoints, backups, retention, rehearsals, and moving a store."""
