"""The common parts of all decoders: events, errors, limits, paths."""
