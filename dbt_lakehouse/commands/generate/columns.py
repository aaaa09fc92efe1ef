"""The columns of a table's models from its profile: names, types, descriptions."""

from collections.abc import Sequence
from typing import Final

from dbt_lakehouse.commands.generate import naming, types
from dbt_lakehouse.commands.generate.generate_output import Outcome
from dbt_lakehouse.commands.generate.models import GeneratedTable, Spec
from dbt_lakehouse.commands.generate.profile import Column, TableId, TableProfile
from dbt_lakehouse.texts import listed
from python_udfs.binlog.labels import Labels

HBASE_KEY: Final = "ROW"
_GUESSED: Final = "the type is guessed from its values."
_HBASE_TEXT: Final = "stored as text, by its values so far."


def table_of(
    table_id: TableId,
    name: str,
    profile: TableProfile,
    key: Sequence[str],
    outcome: Outcome,
    message_key: Sequence[Sequence[str]] = (),
) -> GeneratedTable:
    """A new table from its profile, with these fields as its key; ``message_key`` is the
    declaration of the messages' own keys.
    """
    fields = [each for each in profile.ordered_columns() if each not in key]
    value_fields = [
        each for each in fields if profile.columns[each].in_image or table_id.is_aerospike
    ]
    names = naming.column_names([*key, *value_fields], {})
    of_hbase = is_hbase(profile)
    unavailable = [each for each in value_fields if profile.columns[each].unavailable]
    if unavailable:
        outcome.notes.append(
            f"some changes leave {', '.join(unavailable)} unchanged without shipping the value:"
            " gold keeps the last shipped one"
        )
    outcome.notes += doubts(profile)
    for each in [*key, *value_fields]:
        if broken := broken_type(profile, profile.columns[each]):
            outcome.notes.append(
                f"{names[each]} is a string, because some of its values are text, though the source"
                f" declares {broken}. If they are mistakes, write {broken} in the change log and in"
                " gold's contract: gold then lacks them, and no_misfits shows them"
            )
    if profile.parts:
        outcome.notes.append(
            "some updates ship only the changes inside a field:"
            f" {listed('there are', sorted(profile.parts))}. Gold keeps the field's old value,"
            ' and no_misfits warns; a column of {"path": "...", "type": "..."} has the part'
        )
    return GeneratedTable(
        name,
        table_id,
        sorted(profile.topics),
        sorted(profile.formats),
        [spec_of(each, names[each], profile.columns[each], of_hbase, is_key=True) for each in key],
        [spec_of(each, names[each], profile.columns[each], of_hbase) for each in value_fields],
        message_key=message_key,
        # Only if all of its events have it: one without a place could be anywhere in the order.
        # A log without a key goes by Kafka's order alone.
        order_said=next(iter(profile.orders)) if key and len(profile.orders) == 1 else None,
    )


def broken_type(profile: TableProfile, column: Column) -> str | None:
    """The number or boolean that a table's schema blocks declare for a column in which the source
    sent text all the same; None for another column. NaN and infinity don't count. Documents
    have no blocks: there a field may have values of several types.
    """
    if not profile.schemas:
        return None
    declared = types.common_type(column.types())
    is_broken = types.is_plain(declared) and column.values.texts > column.values.not_finite
    return declared if is_broken else None


def doubts(profile: TableProfile) -> list[str]:
    """Notes on what is unknown about values."""
    return sorted({text for each in profile.labels if (text := _doubt(*each)) is not None})


def _doubt(name: str, labels: Labels) -> str | None:
    """The note on what is unknown about an ENUM's or a SET's values; None if everything
    is known.
    """
    if labels.are_places and not labels.texts:
        return (
            f"{name} has the places of labels, which the messages don't list: of TiCDC, set"
            " content-compatible=true for the labels themselves"
        )
    if not labels.may_be_places:
        return None
    if labels.are_places:
        return (
            f"labels of {name} are digits: values that are digits are taken for the places of"
            " labels, for sqlType says so"
        )
    return (
        f"labels of {name} are digits, and whether its values are labels or their places the"
        " messages don't say: they are taken for labels"
    )


def spec_of(
    name: str,
    column_name: str,
    column: Column | None,
    of_hbase: bool = False,
    *,
    is_key: bool = False,
) -> Spec:
    """The declaration of a field in a model, as a column of that name; ``column`` is None for a
    field that no message has.
    """
    if column is None:
        return Spec(column_name, name, "string", f"Field `{name}` of the source.")
    if of_hbase:
        if not column.values.utf8:
            return Spec(column_name, name, "binary", describe_hbase(name, "binary"))
        return Spec(column_name, name, "string", describe_hbase(name, "string"), "hbase")
    type_name = types.column_type(column.types(), column.values, is_key=is_key)
    return Spec(column_name, name, type_name, describe(name, column, type_name))


def spec_beside(path: str, column_name: str, type_name: str, *, is_header: bool) -> Spec:
    """A column of data that the source gave beside the row, or of a header, as its author has
    declared it.
    """
    description = f"`{path}` of what the source said beside the row."
    if is_header:
        description = f"The message's Kafka header `{path}`."
    return Spec(column_name, path, type_name, description)


def describe(name: str, column: Column, type_name: str) -> str:
    """The description of a column: where it comes from, and why it has this type."""
    start = f"Field `{name}` of the source"
    if not column.in_image:
        start = f"Field `{name}` of the message key"
    newest_first = sorted(column.declared.items(), key=lambda item: item[1][1], reverse=True)
    declared = list(dict.fromkeys(each.source for each, _ in newest_first if each.source))
    if not column.values.count and not declared:
        return f"{start}; always null so far."
    if not declared:
        if type_name != "string":
            return f"{start}, which ships no schema: {_GUESSED}"
        is_text = column.values.count == column.values.texts
        return f"{start}, which ships no schema: {'text' if is_text else 'mixed values as text'}."
    former = f", formerly {' and '.join(declared[1:])}" if len(declared) > 1 else ""
    known = [each for each in column.types() if each is not None]
    if not known and type_name != "string":
        # Aerospike's lists and maps.
        return f"{start}, declared as {declared[0]}{former}: {_GUESSED}"
    why = ""
    if known and type_name == "string" and "string" not in known:
        why = "; text, because no other type holds all its values"
    return f"{start}, declared as {declared[0]}{former}{why}."


def describe_hbase(name: str, type_name: str) -> str:
    """The description of a column of bytes that may be text."""
    what = _HBASE_TEXT if type_name == "string" else "the bytes as they are stored."
    return f"HBase value `{name}`, {what}"


def is_guess(description: str) -> bool:
    """Whether a column's description says that generate has guessed its type, so that generate
    may change it. The type of a column with another description is its author's choice.
    """
    return " ".join(description.split()).endswith((_GUESSED, _HBASE_TEXT))


def is_hbase(profile: TableProfile) -> bool:
    """Whether a Lindorm table is an HBase table: it has a field ROW, and all values are base64."""
    return (
        profile.formats == {"lindorm_json"}
        and HBASE_KEY in profile.columns
        and all(
            column.values.count == column.values.texts and column.values.base64
            for column in profile.columns.values()
        )
    )


def shown(spec: Spec) -> str:
    """A column as text."""
    renamed = f" (from {spec.field})" if spec.field != spec.column else ""
    return f"{spec.column} {spec.type}{renamed}"
