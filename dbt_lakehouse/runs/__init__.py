"""What a run of a model finds out before it builds: what is new, and what its table has noted."""
