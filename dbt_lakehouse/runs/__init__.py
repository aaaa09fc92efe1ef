"""The state of a model's run before it builds: the new rows upstream, and its table's notes."""
