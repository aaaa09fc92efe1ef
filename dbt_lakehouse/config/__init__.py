"""Which project, profile, topics and variables a command works with."""
