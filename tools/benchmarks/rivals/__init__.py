"""Our pipeline beside what others use for the same job: ``make bench-rivals``.

A side is a program of its own environment that loads the same payloads, with a session that is warm
by then; ``__main__`` runs the sides in turn and compares their rows with a plain fold.
"""
