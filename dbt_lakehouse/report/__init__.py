"""The page that a run leaves: what came in, what became of it, and how the last runs compare."""

from typing import Final

WEBHOOK_FORMATS: Final = ("json", "slack")
"""How a webhook can be told."""
