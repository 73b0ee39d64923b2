"""A task: its facts and items, the fold over them, its states, and what happens next."""
