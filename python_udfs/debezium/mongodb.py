"""MongoDB's documents in Debezium's envelope, for ``envelope``: the images are texts.

Implements "Data change events" of the documentation of Debezium's MongoDB connector, and those of
the connectors before 2.0, whose updates are patches:

    key    {"id": "{\\"$oid\\": \\"67ab25755c0d5ac87eb8c632\\"}"}
    value  {"op": "u", "before": null, "after": "{\\"_id\\": {\\"$oid\\": \\"67ab...\\"}, ...}",
            "updateDescription": {"updatedFields": "{\\"address.city\\": \\"Rome\\"}",
              "removedFields": ["nick"], "truncatedArrays": [{"field": "tags", "size": 2}]},
            "source": {"connector": "mongodb", "db": "shop", "rs": "rs0", "collection": "people",
              "ts_ms": 1681879044000, "ord": 1, "lsid": null, "txnNumber": null, ...}}
    older  {"op": "u", "filter": "{\\"_id\\": ...}", "patch": "{\\"$set\\": {\\"a\\": 1}}"}

- ``extended_json`` converts values. Their types are in ``metadata.bson``, by the texts they are
  from: ``before``, ``after``, ``updatedFields`` (also for ``patch``).
- ``record_key`` is ``{"_id": ...}``, from the document, else from the Kafka key, or from the
  filter. The names in a document that is an ``_id`` keep their order, which is part of it. Its type
  is not part of the key: an ObjectId and a string of the same digits are one row, because the
  column ``_id``, gold's key, has one value for both. So are an instant and its text, binary and its
  base64.
- ``updateDescription``, ``patch`` and ``filter`` are in ``metadata`` as they were sent.

An update without ``after`` (``capture.mode`` without ``update_full``, patches, a document that was
gone when it was looked up) has only the changes:

- With ``before``, the update is applied to it: ``after`` is whole. It is not applied if a path is
  ambiguous: a name contains a dot or is a number (``disambiguatedPaths``, which Debezium does not
  pass on, lists such paths), or an array has fewer elements.
- Else ``after`` is partial. It has ``_id``, the top-level fields that were set, removed ones as
  null, and ``$partial``, in which ``updated`` has changes inside fields by path (``address.city``;
  null if removed), and ``truncated`` the new lengths of arrays. Fields that it does not name are
  unchanged. ``images`` applies that to columns.

The order is the log's. Events of a document have one key, so they are in one partition; ``ts_ms``
has whole seconds, ``ord`` is the order within one, and both stay in ``metadata.source`` with the
session's ``lsid`` and ``txnNumber``, and ``wallTime``.
"""

import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from python_udfs.core.budget import Budget
from python_udfs.core.errors import BadField, DecodeError, TooLarge
from python_udfs.core.row_images import PARTIAL, TRUNCATED, UPDATED
from python_udfs.debezium.extended_json import (
    Loaded,
    Types,
    load_document,
    load_documents,
    load_value,
)
from python_udfs.text.json_as_sent import encode, kind_of, shown
from python_udfs.text.numbers import plain_number, plain_numbers

OPS: Final = ("r", "c", "u", "d")
"""Operations on documents; a dropped collection has none."""
_MARKS: Final = frozenset({"patch", "filter", "updateDescription"})
_ID: Final = "_id"
_PARTIAL_NAME: Final = b'"%b"' % PARTIAL.encode()
# The deepest nesting of MongoDB's documents.
_MAX_STEPS: Final = 100
_DOCUMENT_BYTES: Final = 256
_NONE: Final = (list, type(None))
"""The types of arrays that may be empty."""
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}", re.ASCII)


class _KeyOfDocument(msgspec.Struct):
    """A Kafka key. A topic router may have extended it."""

    id: str


_read_key: Final = msgspec.json.Decoder(_KeyOfDocument).decode


Document = str | Loaded | None
"""A document as text, or loaded."""


class Images(NamedTuple):
    """The images of a document's change."""

    record_key: bytes | None
    before: bytes | None
    after: bytes | None
    types: dict[str, Types]


def is_envelope(envelope: dict[str, Any]) -> bool:
    """Whether an envelope is MongoDB's."""
    source = envelope.get("source")
    if type(source) is not dict:
        source = {}
    connector = source.get("connector")
    return (
        (type(connector) is str and connector.lower() == "mongodb")
        or ("collection" in source and "table" not in source)
        or (
            not _MARKS.isdisjoint(envelope)
            and type(envelope.get("after")) in (str, type(None))
            and ("op" in envelope or "source" in envelope)
        )
    )


def read(
    root: str, op: str, envelope: dict[str, Any], key: bytes | str | None, budget: Budget
) -> Images:
    """The images of an envelope with a known ``op``. ``key`` is the Kafka key, as a record key of
    other connectors, or the text of its id. Raises ``DecodeError``.
    """
    types: dict[str, Types] = {}
    before = _document(root, envelope, "before", types)
    after = _document(root, envelope, "after", types)
    identity = _identity(root, envelope, key, after, before)
    if after is None and op == "u":
        update = _update(root, envelope, types)
        if not update.is_partial:
            after = update.updated
            identity = identity or ({_ID: after[_ID]} if _ID in after else {})
        else:
            applied = None if before is None else update.applied_to(before, budget)
            after = applied or update.image(root, identity)
    return Images(
        encode(plain_numbers(identity)) if identity else None,
        None if before is None else encode(before),
        None if after is None else encode(after),
        types,
    )


def images_of(
    op: str,
    before: Document,
    after: Document,
    updated: Document,
    description: Any,
    id_text: str | None,
) -> Images | None:
    """The images of a change from its documents, its ``updateDescription``, whose
    ``updatedFields`` may be loaded, and the id in its Kafka key; None if more is needed. Raises
    ``DecodeError``, possibly other ones than ``read``.
    """
    if type(updated) is tuple and op == "u" and after is None and before is None:
        images = _images_of_update(updated, description, id_text)
        if images is not None:
            return images
    envelope = {"before": before, "after": after, "updateDescription": description}
    images = read("$", op, envelope, id_text, Budget(0))
    if images.record_key is None or (images.after is None and op != "d"):
        return None
    if images.before is not None and images.after is not None and _PARTIAL_NAME in images.after:
        # It could not be applied, possibly for lack of budget.
        return None
    return images


def _images_of_update(found: Loaded, description: Any, id_text: str | None) -> Images | None:
    """``images_of`` for an update that only has its fields; None for any other."""
    removed, arrays = description.get("removedFields"), description.get("truncatedArrays")
    if id_text is None or arrays or type(arrays) not in _NONE or type(removed) not in _NONE:
        return None
    updated, types = found
    if PARTIAL in updated:
        return None
    identity = load_value("$", id_text)[0]
    image: dict[str, Any] = {_ID: identity}
    parts: dict[str, Any] = {}
    for path, value in updated.items():
        (parts if "." in path else image)[path] = value
    for path in removed or ():
        if type(path) is not str:
            return None
        (parts if "." in path else image)[path] = None
    image[_ID] = identity
    image[PARTIAL] = {UPDATED: parts} if parts else {}
    told = {} if types is None else {"updatedFields": types}
    # In half the time of Images().
    key = encode({_ID: plain_number(identity)})
    return tuple.__new__(Images, (key, None, encode(image), told))


def loaded(documents: Sequence[Document]) -> Sequence[Document]:
    """The documents, with texts loaded together, if none is unusual."""
    places = [place for place, text in enumerate(documents) if type(text) is str]
    # mypy doesn't see that those are texts.
    found = load_documents("$", [documents[place] for place in places]) if places else None  # type: ignore[misc]
    if found is None:
        return documents
    if len(places) == len(documents):
        return found
    documents = list(documents)
    for place, document in zip(places, found, strict=True):
        documents[place] = document
    return documents


def identity_of(text: str) -> dict[str, Any] | None:
    """A document's ``_id``, by its name, from the text in its key; None without one."""
    try:
        return {_ID: load_value("$", text)[0]}
    except DecodeError:
        return None


def _identity(
    root: str,
    envelope: dict[str, Any],
    key: bytes | str | None,
    after: dict[str, Any] | None,
    before: dict[str, Any] | None,
) -> dict[str, Any]:
    """The document's ``_id``, by its name; empty without one."""
    for document in (after, before):
        if document is not None and _ID in document:
            return {_ID: document[_ID]}
    if key is not None:
        try:
            id_text = key if isinstance(key, str) else _read_key(key).id
            return {_ID: load_value("$", id_text)[0]}
        except (msgspec.DecodeError, DecodeError):
            # Another key: it stays in metadata as it was sent.
            pass
    found = _document(root, envelope, "filter", {}) or {}
    return {_ID: found[_ID]} if _ID in found else {}


def _document(
    root: str, envelope: dict[str, Any], name: str, types: dict[str, Types]
) -> dict[str, Any] | None:
    text = envelope.get(name)
    if text is None:
        return None
    where = f"{root}.{name}"
    if type(text) is tuple:
        document, told = text
    elif type(text) is str:
        document, told = load_document(where, text)
    else:
        raise BadField(f"{where}: expected a document as text or null, got {kind_of(text)}")
    if PARTIAL in document:
        raise BadField(f'{where}["{PARTIAL}"]: expected no field of that name, it means others')
    if told is not None:
        types[name] = told
    # As for rows: an image without fields means nothing.
    return document or None


# --- Updates --------------------------------------------------------------------------------------


class _Update(NamedTuple):
    """The changes of an update without the document: fields by their paths."""

    updated: dict[str, Any]
    """The values of set fields; None for removed ones."""
    removed: frozenset[str]
    truncated: dict[str, int]
    is_partial: bool = True
    """Otherwise ``updated`` is the whole document."""
    names: frozenset[str] = frozenset()
    """The paths that are a single field's name, in spite of their dots."""
    is_clear: bool = True
    """Whether each path is its steps with dots between: no name contains a dot, or is a number."""

    def image(self, root: str, identity: dict[str, Any]) -> dict[str, Any]:
        """The partial image after it, for an unknown document."""
        if not identity:
            raise BadField(
                f"{root}.after: missing, and neither the Kafka key nor a filter says what _id was"
                " updated"
            )
        image = dict(identity)
        parts: dict[str, Any] = {}
        for path, value in self.updated.items():
            (parts if "." in path and path not in self.names else image)[path] = value
        image |= identity
        image[PARTIAL] = partial = {}
        if parts:
            partial[UPDATED] = parts
        if self.truncated:
            partial[TRUNCATED] = self.truncated
        return image

    def applied_to(self, before: dict[str, Any], budget: Budget) -> dict[str, Any] | None:
        """The image after it, for a known document; None if it is ambiguous, or would be far
        larger than the payload.
        """
        if not self.is_clear:
            return None
        try:
            # Nothing is shared with the image before.
            document: dict[str, Any] = _copied(before)
            for path, length in self.truncated.items():
                holder, name = _holder(document, path, None)
                array = holder[name]
                if type(array) is not list or len(array) < length:
                    return None
                del array[length:]
            for path, value in self.updated.items():
                made_of = None if path in self.removed else budget
                holder, name = _holder(document, path, made_of)
                if path in self.removed:
                    if type(holder) is not dict:
                        return None
                    holder.pop(name, None)
                elif type(holder) is list and name == len(holder):
                    holder.append(value)
                else:
                    holder[name] = value
        except (LookupError, TypeError, TooLarge):
            return None
        return document


def _copied(value: Any) -> Any:
    """A copy; raises ``LookupError`` for names with dots, which make paths ambiguous."""
    if type(value) is dict:
        if any("." in name for name in value):
            raise LookupError
        return {name: _copied(part) for name, part in value.items()}
    return [_copied(part) for part in value] if type(value) is list else value


def _holder(document: dict[str, Any], path: str, budget: Budget | None) -> tuple[Any, Any]:
    """The container of a path's value, and its name or index there. Raises ``LookupError`` if
    that is ambiguous. With a budget, missing documents on the way are created, as MongoDB does.
    """
    holder: Any = document
    *steps, last = path.split(".", _MAX_STEPS)
    if "." in last:
        raise LookupError(path)
    for step in steps:
        name = _name_in(holder, step)
        if budget is not None and type(holder) is dict and name not in holder:
            budget.spend(_DOCUMENT_BYTES)
            holder[name] = {}
        holder = holder[name]
    return holder, _name_in(holder, last)


def _name_in(holder: Any, step: str) -> str | int:
    if type(holder) is dict:
        return step
    if type(holder) is list and _INDEX.fullmatch(step):
        return int(step)
    raise LookupError(step)


def _update(root: str, envelope: dict[str, Any], types: dict[str, Types]) -> _Update:
    description = envelope.get("updateDescription")
    if description is None:
        return _patch(root, envelope, types)
    where = f"{root}.updateDescription"
    if type(description) is not dict:
        raise BadField(f"{where}: expected an object or null, got {kind_of(description)}")
    updated = _document(where, description, "updatedFields", types) or {}
    removed, arrays = description.get("removedFields"), description.get("truncatedArrays")
    truncated: dict[str, int] = {}
    names, is_clear = _names(where, description)
    if not removed and not arrays and type(removed) in _NONE and type(arrays) in _NONE:
        return _Update(updated, frozenset(), truncated, True, names, is_clear)
    if removed is None:
        removed = []
    if type(removed) is not list or not all(type(path) is str for path in removed):
        raise BadField(f"{where}.removedFields: expected an array of names or null")
    if arrays is None:
        arrays = []
    if type(arrays) is not list:
        raise BadField(f"{where}.truncatedArrays: expected an array or null, got {kind_of(arrays)}")
    for index, each in enumerate(arrays):
        field, size = (each.get("field"), each.get("size")) if type(each) is dict else (None, None)
        if type(field) is not str or type(size) is not int or size < 0:
            raise BadField(
                f"{where}.truncatedArrays[{index}]: expected an object with field, a name, and"
                " size, a length"
            )
        truncated[field] = size
    updated |= dict.fromkeys(removed)
    return _Update(updated, frozenset(removed), truncated, True, names, is_clear)


def _names(where: str, description: dict[str, Any]) -> tuple[frozenset[str], bool]:
    """The meaning of paths by ``disambiguatedPaths``: those that are one name, and whether all
    others are their steps with dots between.
    """
    paths = description.get("disambiguatedPaths")
    if paths is None:
        return frozenset(), True
    if type(paths) is not dict or not all(
        type(steps) is list and steps and all(type(step) in (str, int) for step in steps)
        for steps in paths.values()
    ):
        raise BadField(
            f"{where}.disambiguatedPaths: expected an object of arrays of names and indexes or null"
        )
    names = frozenset(path for path, steps in paths.items() if len(steps) == 1)
    is_clear = not any(
        type(step) is str and ("." in step or step.isdecimal())
        for steps in paths.values()
        for step in steps
    )
    return names, is_clear


def _patch(root: str, envelope: dict[str, Any], types: dict[str, Types]) -> _Update:
    """The update that a patch describes, in the form of MongoDB's log before 5.0."""
    told: dict[str, Types] = {}
    patch = _document(root, envelope, "patch", told)
    if patch is None:
        raise BadField(
            f"{root}.after: missing, although op is 'u' (update), and so are updateDescription and"
            " patch"
        )
    if not any(name[:1] == "$" for name in patch):
        if "patch" in told:
            types["updatedFields"] = told["patch"]
        return _Update(patch, frozenset(), {}, is_partial=False)
    updated: dict[str, Any] = {}
    removed: frozenset[str] = frozenset()
    for name, fields in patch.items():
        where = f'{root}.patch["{name}"]'
        if name == "$v":
            if fields != 1:
                raise BadField(f"{where}: expected version 1 of MongoDB's log")
        elif name not in ("$set", "$unset"):
            raise BadField(
                f"{root}.patch: expected $set, $unset or a whole document, got {shown(name)}"
            )
        elif type(fields) is not dict:
            raise BadField(f"{where}: expected an object, got {kind_of(fields)}")
        elif name == "$set":
            updated |= fields
            if type(told.get("patch")) is dict and "$set" in told["patch"]:
                types["updatedFields"] = told["patch"]["$set"]
        else:
            removed = frozenset(fields)
    return _Update(updated | dict.fromkeys(removed), removed, {})
