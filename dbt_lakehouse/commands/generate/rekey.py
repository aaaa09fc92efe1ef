"""Change a table's key: whether the messages' own key identifies rows, whether it has changed at
the source, and the resulting changes to a change log's model.
"""

import ast
from collections.abc import Sequence
from typing import Final, NamedTuple

from dbt_lakehouse.commands.generate import naming
from dbt_lakehouse.commands.generate.columns import spec_of
from dbt_lakehouse.commands.generate.edit import Piece, more_entries
from dbt_lakehouse.commands.generate.key_evidence import KeyEvidence
from dbt_lakehouse.commands.generate.models import Spec, entry_lines, message_key_text
from dbt_lakehouse.commands.generate.profile import TableProfile
from dbt_lakehouse.commands.generate.sources import Call, ChangeLog, Entry, Span
from dbt_lakehouse.declared import message_keys
from dbt_lakehouse.texts import counted

_WIDTH: Final = 100


# --- Whether it is one ----------------------------------------------------------------------------


def doubt(profile: TableProfile, names: Sequence[str], entity: str) -> str | None:
    """The evidence in a table's messages that columns don't identify its rows; None if they may.

    Columns that are named like a key are trusted, unless another column is too: deletes may have
    been lost, or left out. Then there is a hint.
    """
    evidence = profile.evidence.get(tuple(sorted(names)))
    if evidence is None or message_keys.is_believed(names, profile.columns, entity):
        return None
    if text := _of_reinserted(profile, evidence, names):
        return text
    kept = message_keys.identifiers(evidence.kept or (), entity) - {*names}
    if evidence.moved_at is None or not kept:
        return None
    return (
        f"{counted(evidence.moved, 'update')} have another value of {', '.join(names)} before than"
        f" after, and the same {', '.join(sorted(kept))}, the first time at"
        f" {_shown(evidence.moved_at)}"
    )


def hint(profile: TableProfile, names: Sequence[str]) -> str | None:
    """A note on messages that contradict a trusted key; None without any."""
    evidence = profile.evidence.get(tuple(sorted(names)))
    if evidence is None:
        return None
    text = _of_reinserted(profile, evidence, names)
    if text is None and evidence.moved_at is not None:
        text = (
            f"{counted(evidence.moved, 'update')} have another {', '.join(names)} before than"
            f" after, the first time at {_shown(evidence.moved_at)}: to gold that is a delete and"
            " an insert"
        )
    return None if text is None else f"{text}. If the rows have another key, give it with --key"


def _of_reinserted(
    profile: TableProfile, evidence: KeyEvidence, names: Sequence[str]
) -> str | None:
    found = evidence.reinserted(profile.truncates)
    if found.example is None:
        return None
    return (
        f"{found.keys:,} of {counted(found.looked_at, 'key')} of {', '.join(names)} that were"
        " looked at have a second row inserted while the first one is there, the first time at"
        f" {_shown(found.example)}"
    )


def _shown(position: Sequence[object]) -> str:
    _, topic, partition, offset, *_ = position
    return f"topic {topic}, partition {partition}, offset {offset}"


def newest_key(profile: TableProfile) -> tuple[str, ...] | None:
    """The names of the newest messages' keys; None without keys."""
    return max(profile.keys, key=lambda names: profile.keys[names], default=None)


def beside(profile: TableProfile, key: Sequence[str], *, is_doubtful: bool) -> list[list[str]]:
    """The messages' own keys that a model has to declare beside the key that the call has named;
    empty if the newest ones have that key.
    """
    others = [sorted(names) for names in profile.keys if {*names} != {*key}]
    newest = newest_key(profile)
    if newest is None or {*newest} == {*key}:
        return [sorted(key)] if is_doubtful else []
    return sorted(others) + ([sorted(key)] if is_doubtful else [])


# --- What becomes another one ---------------------------------------------------------------------


class Rekeyed(NamedTuple):
    """The new key of a change log."""

    key: list[Spec]
    added: list[Spec]
    """Key columns that the log has not declared yet."""
    renamed: list[str]
    """Columns that stay, and whose field has changed its case."""
    left: list[str]
    """Columns that leave the key."""


def changed_key(log: ChangeLog, profile: TableProfile) -> list[str] | None:
    """The fields of the newest messages' keys, if they have changed since the log was declared;
    None if the log has the same key, or one of its author's choice.
    """
    newest, has = newest_key(profile), {*log.key_fields}
    if newest is None or not has or {*newest} == has or log.message_key == message_keys.ANY:
        return None
    if log.message_key is not None and sorted(newest) in log.message_key:
        return None
    was_theirs = any({*names} == has for names in profile.keys)
    is_gone = not has <= {name for name, column in profile.columns.items() if column.in_image}
    if not was_theirs and not is_gone:
        return None
    place = {name: index for index, name in enumerate(profile.ordered_columns())}
    return sorted(newest, key=lambda name: place[name])


def rekeyed(log: ChangeLog, fields: Sequence[str], profile: TableProfile) -> Rekeyed:
    """The columns of a new key: those that the log declares stay as they are."""
    by_field: dict[str, Entry] = {}
    by_case: dict[str, Entry] = {}
    # A field may have several columns: that of the key comes first.
    for entry in sorted(log.entries.values(), key=lambda entry: entry.column not in log.key):
        if not entry.is_inside:
            by_field.setdefault(entry.field, entry)
            by_case.setdefault(entry.field.lower(), entry)
    key, added, renamed = [], [], []
    taken = log.taken
    for name in fields:
        known = by_field.get(name)
        if known is None and name.lower() in by_case and by_case[name.lower()].column in log.key:
            known = by_case[name.lower()]._replace(field=name)
            renamed.append(known.column)
        if known is not None:
            key.append(Spec(known.column, known.field, known.type, "", known.encoding))
            continue
        column = naming.column_names([name], taken)[name]
        spec = spec_of(name, column, profile.columns.get(name), is_key=True)
        taken[column] = name
        key.append(spec)
        added.append(spec)
    columns = {spec.column for spec in key}
    return Rekeyed(key, added, renamed, [each for each in log.key if each not in columns])


def pieces(log: ChangeLog, new: Rekeyed, said: Sequence[Sequence[str]]) -> list[Piece]:
    """The changes to a model's text: the new key's columns move into the key, the former key's
    columns move behind, and ``said`` declares the messages' own keys.
    """
    columns = {spec.column for spec in new.key}
    out = [_key_piece(log.call, new.key)]
    moved = [each for each in columns if each not in log.key and each in log.entries]
    left = [_spec_of_entry(log.entries[each]) for each in new.left]
    if moved:
        out += _without(log.call, "columns", moved)
    if left:
        out.append(_in_front(log.call, left, is_empty=len(moved) == _size(log.call)))
    return out + message_key_pieces(log, said)


def message_key_pieces(log: ChangeLog, said: Sequence[Sequence[str]]) -> list[Piece]:
    """The changes that add the keys that messages may have to a model's declaration."""
    if not said or log.message_key == message_keys.ANY:
        return []
    known = list(log.message_key or [])
    lists = [*known, *(list(names) for names in said if list(names) not in known)]
    if lists == known:
        return []
    text, call = message_key_text(lists), log.call
    if "message_key" in call.spans:
        return [Piece(call.spans["message_key"], text)]
    at = call.spans["key"]
    line = call.text[call.text.rfind("\n", 0, at.start) + 1 : at.start]
    indent = f",\n{' ' * (len(line) - len(line.lstrip()))}" if line.strip() == "key=" else ", "
    return [Piece(Span(at.end, at.end), f"{indent}message_key={text}")]


def _spec_of_entry(entry: Entry) -> Spec:
    return Spec(entry.column, entry.field, entry.type, "", entry.encoding)


def _size(call: Call) -> int:
    node = call.arguments["columns"]
    assert isinstance(node, ast.Dict)
    return len(node.keys)


def _key_piece(call: Call, key: Sequence[Spec]) -> Piece:
    at = call.spans["key"]
    inline = ", ".join(" ".join(entry_lines(spec, 0)).removesuffix(",") for spec in key)
    start = at.start - (call.text.rfind("\n", 0, at.start) + 1)
    if start + len(inline) + 3 <= _WIDTH:
        return Piece(at, f"{{{inline}}}")
    line = call.text[call.text.rfind("\n", 0, at.start) + 1 : at.start]
    indent = len(line) - len(line.lstrip())
    lines = [each for spec in key for each in entry_lines(spec, indent + 4)]
    return Piece(at, "\n".join(["{", *lines, " " * indent + "}"]))


def _without(call: Call, argument: str, columns: Sequence[str]) -> list[Piece]:
    """Remove columns from a dict, with the lines that they are alone on."""
    node = call.arguments[argument]
    assert isinstance(node, ast.Dict)
    out, text = [], call.text
    whole = call.spans[argument]
    for name, value in zip(node.keys, node.values, strict=True):
        if name is None or ast.literal_eval(name) not in columns:
            continue
        start, end = call.span(name).start, call.span(value).end
        rest = text[end : whole.end - 1]
        if rest.lstrip().startswith(","):
            end += rest.index(",") + 1
        line = text.rfind("\n", 0, start) + 1
        if line > whole.start and not text[line:start].strip():
            start = line
            end += len(text[end : whole.end - 1]) - len(text[end : whole.end - 1].lstrip(" "))
            end += text[end : end + 1] == "\n"
        else:
            end += len(text[end : whole.end - 1]) - len(text[end : whole.end - 1].lstrip(" "))
        out.append(Piece(Span(start, end), ""))
    return out


def _in_front(call: Call, specs: Sequence[Spec], *, is_empty: bool) -> Piece:
    """Insert further columns before the existing ones."""
    node = call.arguments["columns"]
    assert isinstance(node, ast.Dict)
    if not node.keys:
        return more_entries(call, specs)
    whole, text = call.spans["columns"], call.text
    at = whole.start + 1
    if "\n" not in text[whole.start : whole.end]:
        inline = ", ".join(" ".join(entry_lines(spec, 0)).removesuffix(",") for spec in specs)
        return Piece(Span(at, at), inline if is_empty else f"{inline}, ")
    first = node.keys[0]
    assert first is not None
    start = call.span(first).start
    indent = start - (text.rfind("\n", 0, start) + 1)
    lines = [each for spec in specs for each in entry_lines(spec, indent)]
    return Piece(Span(at, at), "\n" + "\n".join(lines))


def without_value(profile: TableProfile, fields: Sequence[str]) -> int:
    """The number of rows that lack a value in one of these."""
    afters = [profile.columns[name].afters for name in fields if name in profile.columns]
    return profile.afters - min(afters, default=0)
