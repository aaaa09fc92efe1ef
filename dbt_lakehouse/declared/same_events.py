"""Change logs that take the same events, as a copied model does whose source was left as it was."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any


def told(logs: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """A sentence for each source whose events several change logs take with the same conditions.
    ``logs`` are the files of the models with their declarations. Logs with different masks are
    wanted: one has the clear values.
    """
    alike: dict[tuple[str, ...], list[tuple[str, Mapping[str, Any]]]] = defaultdict(list)
    for file, log in logs:
        masks = sorted(
            f"{spec['column']} {spec['mask']}" for spec in log["columns"] if "mask" in spec
        )
        alike[*log["conditions"], "masks", *masks].append((file, log))
    sentences = []
    for same in alike.values():
        if len(same) > 1:
            files = sorted(file for file, _ in same)
            together = f"{', '.join(files[:-1])} and {files[-1]}"
            sentences.append(
                f"{together} take the same events,{_source(same[0][1])} so each has a log of its"
                " own of them: if one is a copy, correct its source or its topic; if it is left"
                " over, delete it"
            )
    return sorted(sentences)


def _source(log: Mapping[str, Any]) -> str:
    """The source tables of a log, as part of a sentence."""
    names = [".".join(filter(None, source)) for source in log["sources"] or ()]
    return f" those of {', '.join(names)}," if names else ""
