"""The page that a run leaves: what came in, what became of it, and how the last runs compare."""
