"""What holds for every payload whatever, and a fuzzer that looks for one for which it doesn't.

    make fuzz FUZZ="--format aerospike_json --seconds 600"      all formats without --format
    make fuzz FUZZ="--format aerospike_json --runs 1000000"     by executions, not by time
    make fuzz FUZZ="--format aerospike_json --repeat FILE"      what it has found, once more

atheris changes payloads where that makes the decoders go other ways: small ones, and in a second
pass ones of up to 200,000 bytes. What it has learned is kept in .cache/fuzz, with how often each
format was executed; a payload that breaks a property is left there too. The seeds are in
fuzz_seeds.jsonl; what was found belongs there with its remedy.
"""

import argparse
import base64
import hashlib
import json
import random
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import msgspec

COLUMN_TEXTS: Final = "column_texts"
SEEDS: Final = Path(__file__).with_name("fuzz_seeds.jsonl")
# The key is behind the value, so that bytes which are put into the value move nothing else.
_SEPARATOR: Final = b"\n\xffkey\xff\n"
_HBASE_TYPES: Final = ("string", "boolean", "int", "bigint", "float", "double", "decimal(9,2)")
_SECONDS_EACH_100_KB: Final = 0.1
_FOLDER: Final = Path(".cache/fuzz")
_EXECUTED: Final = re.compile(r"^(?:stat::number_of_executed_units: |#)(\d+)", re.MULTILINE)


class Payload(NamedTuple):
    """A message of some format."""

    key: bytes | None
    value: bytes


def from_bytes(data: bytes) -> Payload:
    """The message that the fuzzer means with some bytes."""
    value, is_there, key = data.rpartition(_SEPARATOR)
    return Payload(key, value) if is_there else Payload(None, data)


def to_bytes(payload: Payload) -> bytes:
    """The bytes that mean a message."""
    return payload.value if payload.key is None else payload.value + _SEPARATOR + payload.key


def seeds() -> dict[str, list[Payload]]:
    """The messages of the repository, by format."""
    found: dict[str, list[Payload]] = {}
    for seed in _lines():
        if "format" not in seed:
            continue
        key = None if seed["key_b64"] is None else base64.b64decode(seed["key_b64"])
        value = base64.b64decode(seed["value_b64"])
        found.setdefault(seed["format"], []).append(Payload(key, value))
    return found


def know_schemas() -> None:
    """Have the schemas that the seeds in Avro name, as a registry gives them."""
    from python_udfs.debezium import avro

    avro.know(
        {
            each["schema_id"]: avro.Registered("AVRO", (each["schema"],))
            for each in _lines()
            if "schema_id" in each
        }
    )


def _lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SEEDS.read_text().splitlines()]


# --- Properties -----------------------------------------------------------------------------------


def check(format: str, payload: Payload, others: Sequence[Payload]) -> None:
    """Raise ``AssertionError`` if a property doesn't hold for a payload.

    ``others`` are sound messages, which it must not change when they are in one batch.
    """
    if format == COLUMN_TEXTS:
        _refuse_slow(lambda: check_column_texts(payload.value), len(payload.value))
        return
    from python_udfs import registry

    size = len(payload.value) + len(payload.key or b"")
    events = _refuse_slow(lambda: registry.decode_payload(format, *payload), size)
    for event in events:
        check_event(event, size)
    # The fast path takes no fewer than eight alike.
    batch = [payload, *others] * 8
    decode_batch = registry._BATCHES.get(format)
    if decode_batch is not None:
        keys, values = [each.key for each in batch], [each.value for each in batch]
        together = decode_batch(keys, values).payloads()
        alone = [events, *(_alone(format, each) for each in others)] * 8
        for found, expected in zip(together, alone, strict=True):
            assert found == expected, f"in a batch {found}, alone {expected}"


@cache
def _alone(format: str, payload: Payload) -> list[Any]:
    from python_udfs.registry import decode_payload

    return list(decode_payload(format, *payload))


def _refuse_slow(work: Callable[[], Any], size: int) -> Any:
    seconds = []
    # A machine may be busy; its own clock of a process may take longer than most payloads.
    for clock in (time.perf_counter, time.process_time, time.process_time):
        start = clock()
        result = work()
        seconds.append(clock() - start)
        if seconds[-1] < _SECONDS_EACH_100_KB * max(1, size / 100_000):
            return result
    raise AssertionError(f"{min(seconds):.3f} s for {size} bytes")


def check_event(event: Any, size: int) -> None:
    """Raise ``AssertionError`` if an event of a payload of so many bytes is none."""
    from python_udfs.core.errors import CODES

    assert event.error_code != "decoder_failed", event.error_detail
    assert (event.operation == "invalid") == (event.error_code is not None), event
    assert event.error_code is None or (event.error_code in CODES and event.error_detail), event
    texts = (event.record_key, event.before, event.after, event.metadata)
    for text in texts:
        if text is not None:
            # Numbers keep the digits that were sent: Python has not all of them.
            assert json.loads(text.decode(), parse_int=str, parse_float=str) is not None, event
            assert b"\n" not in text, event
    for name in (event.source_database, event.source_schema, event.source_table):
        assert name is None or name.encode() or name == "", event
    assert sum(len(text or b"") for text in texts) < 30 * size + 16 * 1024 * 1024, size
    image = event.after or event.before
    # A decoder is made for its names, which takes long.
    if image is not None and zlib.crc32(image) % 8 == 0:
        check_image(image)


def check_image(image: bytes) -> None:
    """Raise ``AssertionError`` if the columns of an image depend on the images beside it."""
    from python_udfs.typed.images import _exact_texts, row_texts_of_many

    names = tuple(msgspec.json.decode(image, type=dict[str, msgspec.Raw]))[:50]
    other = b'{"id":1}'
    for keys in ((), names):
        exact = _exact_texts(image, names, frozenset(keys))
        images = [image, other, image]
        together, *_ = row_texts_of_many(images, [None] * 3, [None] * 3, names, keys)
        assert together[0] == together[2] == exact, (together, exact)


def check_column_texts(text: bytes) -> None:
    """Raise ``AssertionError`` if the functions of column texts do other than alone with a text
    among others, or raise for it.
    """
    from python_udfs.typed import images

    shown = text.decode(errors="replace")
    for one, many in (
        (images.json_elements, images.json_elements_of_many),
        (images.json_entries, images.json_entries_of_many),
    ):
        texts = [shown, '["a",1]', None, '{"a":1.50}', shown]
        alone: list[Any] = [one(each) for each in texts]
        found = many(texts)
        assert found.lengths == [None if each is None else len(each) for each in alone]
        assert list(found.texts) == [
            value
            for each in alone
            if each is not None
            for value in (each.values() if isinstance(each, dict) else each)
        ], (found, alone)
        assert found.names == [name for each in alone if isinstance(each, dict) for name in each], (
            found
        )
    for type_name in _HBASE_TYPES:
        for value in (shown, base64.b64encode(text).decode()):
            result = images.decode_hbase(value, type_name)
            assert result is None or len(result) < len(value) + 2500, type_name
    try:
        # As decoders make images: of valid UTF-8, and JSON to its depths.
        assert isinstance(msgspec.json.decode(text.decode()), dict)
    except (AssertionError, RecursionError, ValueError):
        return
    check_image(text)


def without_rest() -> None:
    """Make the fast paths learn whenever they can, whether that pays or not."""
    from python_udfs import registry

    for decode_batch in registry._BATCHES.values():
        module: ModuleType = sys.modules[decode_batch.__module__]
        module._FAST_PATH.learning.clock = lambda: 0.0


def learn_anew(monkeypatch: Any, *formats: str) -> None:
    """Give a test fast paths of its own, which know nothing yet: of these formats, or of all."""
    from python_udfs import registry
    from python_udfs.core.fast_path import FastPath

    for format in formats or registry._BATCHES:
        if (decode_batch := registry._BATCHES.get(format)) is None:
            continue
        module: Any = sys.modules[decode_batch.__module__]
        way = module._FAST_PATH
        monkeypatch.setattr(module, "_FAST_PATH", FastPath(way._decode, way._format))


def changed(known: list[Payload], rng: random.Random) -> Iterator[Payload]:
    """Seeds as they are, cut off, with other bytes, and with parts of each other."""
    yield from known
    while True:
        data = bytearray(to_bytes(rng.choice(known)))
        other = to_bytes(rng.choice(known))
        at, start = rng.randrange(len(data)), rng.randrange(len(other))
        change = rng.randrange(4)
        if change == 0:
            del data[at:]
        elif change == 1:
            data[at] = rng.randrange(256)
        elif change == 2:
            data[at:at] = other[start : start + rng.randrange(20)]
        else:
            data[at : at + rng.randrange(8)] = b""
        yield from_bytes(bytes(data))


# --- The fuzzer -----------------------------------------------------------------------------------


class Pass(NamedTuple):
    """The payloads that one call of the fuzzer makes: where they are kept, how long they may be,
    how much of the time is theirs, and how many of the executions: long ones take a hundred times
    as long.
    """

    corpus: str
    longest: int
    of_seconds: float
    of_runs: float


_PASSES: Final = (Pass("corpus", 8_192, 0.8, 0.99), Pass("long", 200_000, 0.2, 0.01))


def fuzz(
    format: str, *, seconds: float | None = None, runs: int | None = None, is_quiet: bool = False
) -> bool:
    """Fuzz a format for so long, or so often; whether nothing was found. Each pass is a process of
    its own, for it ends with the first that it finds. ``is_quiet`` leaves out what is learned.
    """
    for number, each in enumerate(_PASSES):
        limit = [f"-runs={max(1, round(runs * each.of_runs))}"] if runs else []
        if seconds:
            limit.append(f"-max_total_time={max(1, round(seconds * each.of_seconds))}")
        child = [
            sys.executable,
            "-m",
            "support.fuzzing",
            "--format",
            format,
            "--pass",
            str(number),
            *limit,
        ]
        said = []
        with subprocess.Popen(child, stderr=subprocess.PIPE, text=True, errors="replace") as fuzzer:
            assert fuzzer.stderr is not None
            for line in fuzzer.stderr:
                said.append(line)
                if not is_quiet:
                    sys.stderr.write(line)
        if fuzzer.returncode and is_quiet:
            sys.stderr.write("".join(said[-40:]))
        executed = max(map(int, _EXECUTED.findall("".join(said))), default=0)
        total = _count(format, executed)
        told = f"{executed:,} executions, {total:,} in all"
        print(f"{format}, up to {each.longest:,} bytes: {told}", flush=True)
        if fuzzer.returncode:
            return False
    return True


def executions(format: str) -> int:
    """How often a format was executed with today's decoders."""
    file = _FOLDER / format / "executed.json"
    counts: dict[str, int] = json.loads(file.read_text()) if file.exists() else {}
    return counts.get(_decoders(), 0)


def _count(format: str, executed: int) -> int:
    total = executions(format) + executed
    file = _FOLDER / format / "executed.json"
    file.write_text(json.dumps({_decoders(): total}))
    return total


@cache
def _decoders() -> str:
    """A digest of the decoders' code, and of what is asked of them."""
    files = [*sorted(Path("python_udfs").rglob("*.py")), Path(__file__)]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def _run(format: str, chosen: Pass, options: Sequence[str], repeated: Path | None) -> None:
    # Only `make fuzz` installs it, and it has no types.
    import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]

    with atheris.instrument_imports(include=["python_udfs"]):
        from python_udfs import registry

        assert registry.FORMATS
    without_rest()
    know_schemas()
    known = seeds()[format]
    # Of the smallest only: each time all are decoded.
    others = sorted(known, key=lambda each: len(each.value))[:2]
    if repeated is not None:
        check(format, from_bytes(repeated.read_bytes()), others)
        return
    folder = _FOLDER / format
    # The first is where new ones go. Long ones would be cut by the pass of short ones.
    corpora = [folder / name for name in dict.fromkeys((chosen.corpus, _PASSES[0].corpus))]
    for corpus in corpora:
        corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(known):
        (corpora[-1] / f"seed-{number}").write_bytes(to_bytes(seed))
        if chosen is not _PASSES[0]:
            for name, data in _lengthened(seed, chosen.longest).items():
                (corpora[0] / f"{name}-{number}").write_bytes(data)
    words = folder / "words"
    words.write_text("".join(f'"{word}"\n' for word in _words(known)))
    atheris.Setup(
        [
            sys.argv[0],
            *map(str, corpora),
            f"-artifact_prefix={folder}/",
            f"-dict={words}",
            f"-max_len={chosen.longest}",
            # Long at once: it would begin with what is as long as the seeds.
            *(["-len_control=0"] if chosen is not _PASSES[0] else []),
            *options,
            *("-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"),
        ],
        lambda data: check(format, from_bytes(data), others),
    )
    atheris.Fuzz()


def _lengthened(seed: Payload, longest: int) -> dict[str, bytes]:
    """A seed many times over, as an array and bare; and with a long text in it, and deeply nested:
    mutations add a few bytes at most.
    """
    value, room = seed.value, longest // 2
    times = min(room // max(1, len(value)), 2**16 - 1)
    middle = value.find(b'"', len(value) // 2) + 1
    return {
        "array": b"[" + b",".join([value] * times) + b"]",
        "messagepack": b"\xdc" + times.to_bytes(2) + value * times,
        "again": value * times,
        "text": value[:middle] + b"x" * room + value[middle:],
        "nested": value[:middle] + b'":' + b"[" * room + value[middle:],
    }


def _words(known: Sequence[Payload]) -> list[str]:
    """What JSON seeds have between quotes, with a mark behind names; and numbers at the edges."""
    found = set()
    for seed in known:
        for part in seed.value.decode(errors="replace").split('"')[1::2]:
            if part.isascii() and part.isprintable() and 0 < len(part) < 40 and "\\" not in part:
                found |= {part, f'\\"{part}\\":'}
    edges = ("null", "true", "[]", "{}", "-0", "1e400", "9223372036854775808", "\\\\ud800", "NaN")
    return sorted({*found, *edges})


def main() -> None:
    from python_udfs.registry import FORMATS

    parser = argparse.ArgumentParser(prog="make fuzz", allow_abbrev=False)
    parser.add_argument("--format", choices=[*FORMATS, COLUMN_TEXTS])
    parser.add_argument("--seconds", type=int, help="for each format (60, if no --runs are given)")
    parser.add_argument("--runs", type=int, help="executions of each format")
    parser.add_argument("--repeat", type=Path, metavar="FILE")
    parser.add_argument("--pass", type=int, dest="number", help=argparse.SUPPRESS)
    chosen, options = parser.parse_known_args()
    if chosen.number is None and chosen.repeat is None:
        if options:
            parser.error(f"unrecognized arguments: {' '.join(options)}")
        seconds = chosen.seconds or (None if chosen.runs else 60)
        failed = [
            name
            for name in ([chosen.format] if chosen.format else [*FORMATS, COLUMN_TEXTS])
            if not fuzz(name, seconds=seconds, runs=chosen.runs)
        ]
        sys.exit(f"something was found in {', '.join(failed)}" if failed else 0)
    if chosen.format is None:
        parser.error("--repeat needs --format")
    for name in [name for name in sys.modules if name.startswith("python_udfs")]:
        # To be imported anew, watched.
        del sys.modules[name]
    _run(chosen.format, _PASSES[chosen.number or 0], options, chosen.repeat)


if __name__ == "__main__":
    main()
