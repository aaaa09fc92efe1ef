"""What all decoders share: events, errors, limits, paths."""
