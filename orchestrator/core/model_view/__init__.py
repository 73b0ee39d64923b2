"""The model's view of a task: the prompt, its steps, the window, and secrets as markers."""
