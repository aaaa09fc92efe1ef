"""The state of a model's run before it builds: what is new, and what its table has noted."""
