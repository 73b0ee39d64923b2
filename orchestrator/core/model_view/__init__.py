"""What the model sees of a task: the prompt, its steps, the window, and secrets as markers."""
