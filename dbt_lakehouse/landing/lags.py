"""Lags from Kafka's timestamp to gold's commit, over the last hour.

Messages are counted by their lag, in buckets that grow by a tenth. Counts of any times and topics
can be added, and a percentile of the sum is right within a tenth. `lakehouse stream --build`
keeps them, by minute and topic, in a file of dbt's artifacts folder.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import md5
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple
from urllib.parse import quote

import msgspec

from dbt_lakehouse.lake.catalog import CATALOG_URI, WAREHOUSE
from dbt_lakehouse.redaction import without_secrets

_GROWTH: Final = 1.1
_MINUTES: Final = 60
# In dbt's artifacts folder.
_FOLDER: Final = "stream"

Buckets = Mapping[int, int]
"""Messages by their lag or age: bucket b is for 1.1^b to 1.1^(b+1) ms; bucket 0 includes shorter
ones.
"""


class Spread(NamedTuple):
    """The distribution of lags, in seconds, each within a tenth."""

    messages: int
    p50: float
    p99: float


def bucket_sql(millis: str) -> str:
    """SQL for the bucket of a number of milliseconds."""
    return f"cast(floor(ln(greatest({millis}, 1)) / ln({_GROWTH})) as int)"


def bucket_of(seconds: float) -> int:
    """The bucket of a lag."""
    return bucket_of_millis(seconds * 1_000)


def bucket_of_millis(millis: float) -> int:
    """The bucket of a number of milliseconds."""
    return math.floor(math.log(max(millis, 1)) / math.log(_GROWTH))


def seconds_of(bucket: int) -> float:
    """The lag that represents a bucket, off by half a bucket at most."""
    return float(_GROWTH ** (bucket + 0.5)) / 1_000


def grown(ages: Buckets, seconds: float) -> Counter[int]:
    """Ages, ``seconds`` later."""
    found: Counter[int] = Counter()
    for bucket, messages in ages.items():
        found[bucket_of(seconds_of(bucket) + max(0.0, seconds))] += messages
    return found


def spread_of(parts: Iterable[Buckets]) -> Spread | None:
    """The distribution of all these lags together; None without lags."""
    total: Counter[int] = Counter()
    for part in parts:
        total.update(part)
    messages = total.total()
    if not messages:
        return None
    return Spread(messages, *(_percentile(total, messages, share) for share in (0.5, 0.99)))


def _percentile(counts: Buckets, messages: int, share: float) -> float:
    rank, seen = math.ceil(messages * share), 0
    for bucket in sorted(counts):
        seen += counts[bucket]
        if seen >= rank:
            return seconds_of(bucket)
    raise AssertionError(f"{messages} are not the messages of {counts}")


class _Kept(msgspec.Struct):
    minutes: dict[int, dict[str, dict[int, int]]] = {}
    """By minute since 1970 and topic."""


def hour_file(target: Path, settings: Mapping[str, str], gold: str) -> Path:
    """The file of a lake's last hour in dbt's artifacts folder, which several lakes can share.
    ``settings`` are the lake's, ``gold`` is the schema of its gold tables.
    """
    lake = without_secrets(f"{settings.get(CATALOG_URI)} {settings.get(WAREHOUSE)}")
    digest = md5(lake.encode(), usedforsecurity=False).hexdigest()
    return target / _FOLDER / f"{quote(gold, safe='')}-{digest[:8]}.json"


class HourOfLags:
    """The lags of the last hour, in a file (``hour_file``). Lags that an earlier process kept
    there are included.
    """

    def __init__(self, file: Path) -> None:
        self._file: Final = file
        self._kept: Final = _read(file)

    def add(self, topic: str, at: datetime, lags: Buckets) -> None:
        """Add the lags of a topic's messages that reached gold at a moment."""
        topics = self._kept.minutes.setdefault(_minute(at), {})
        topics[topic] = dict(Counter(topics.get(topic, {})) + Counter(lags))

    def keep(self, now: datetime) -> None:
        """Write the file, without lags older than an hour. Raises ``OSError``."""
        for minute in [each for each in self._kept.minutes if each <= _minute(now) - _MINUTES]:
            del self._kept.minutes[minute]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile(dir=self._file.parent, delete=False) as written:
            partial = Path(written.name)
            try:
                written.write(msgspec.json.encode(self._kept))
                written.close()
                partial.replace(self._file)
            except OSError:
                partial.unlink(missing_ok=True)
                raise


def last_hour(file: Path, now: datetime) -> dict[str, Buckets]:
    """The lags of the last hour by topic, from a file (``hour_file``); empty if no stream has
    kept any.
    """
    found: dict[str, Counter[int]] = {}
    for minute, topics in _read(file).minutes.items():
        if _minute(now) - _MINUTES < minute <= _minute(now):
            for topic, lags in topics.items():
                found.setdefault(topic, Counter()).update(lags)
    return {topic: found[topic] for topic in sorted(found)}


def _minute(moment: datetime) -> int:
    return int(moment.timestamp()) // 60


def _read(file: Path) -> _Kept:
    try:
        return msgspec.json.decode(file.read_bytes(), type=_Kept)
    except (OSError, msgspec.DecodeError):
        # There is no file, or another version has written it.
        return _Kept()
