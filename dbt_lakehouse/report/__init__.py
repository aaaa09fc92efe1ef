"""The page that a run leaves: what came in, its results, and a comparison of the last runs."""

from typing import Final

WEBHOOK_FORMATS: Final = ("json", "slack")
"""The formats of a webhook's messages."""
