"""Makes ``tests/reference_fold.py`` importable: it is dbt's too, so it lives one folder up."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
