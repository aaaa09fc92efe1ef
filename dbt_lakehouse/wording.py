"""Words that several messages share."""


def counted(number: int, noun: str) -> str:
    """A number of things, whose plural has an s: ``1 topic``, ``2,000 topics``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
