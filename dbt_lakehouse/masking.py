"""The key of masks, which is only in an environment variable."""

import os
from typing import Final

from dbt_lakehouse.errors import ConfigurationError

MASK_KEY: Final = "LAKEHOUSE_MASK_KEY"
_SHORTEST: Final = 16


def mask_key() -> bytes:
    """The key that hashes masked columns. Raises ``ConfigurationError`` if it is missing or too
    short.
    """
    key = os.fsencode(os.environ.get(MASK_KEY, ""))
    if len(key) < _SHORTEST:
        raise ConfigurationError(
            f'a column has "mask": "hash", and the environment variable {MASK_KEY} has'
            f" {f'only {len(key)} bytes' if key else 'no key'}: set it to a secret of {_SHORTEST}"
            " bytes or more, the same one for each run"
        )
    return key
