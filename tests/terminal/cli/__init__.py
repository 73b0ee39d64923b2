"""Commands as people start them: real processes on pipes and terminals."""
