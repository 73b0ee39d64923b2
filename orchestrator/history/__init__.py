"""What is kept: the audit, checkpoints, backups, retention, rehearsals, and moving a store."""
