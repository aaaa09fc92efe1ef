"""Folders of the checkout. Nothing is written outside it, so two checkouts run side by side."""

from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
CACHE: Final = ROOT / ".cache"
