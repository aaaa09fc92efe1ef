"""Declared types: the columns of change logs, from the texts that decoders give.

``values.typed`` defines a value by its text; ``columns.typed_column`` gives the same for a whole
column, and ``rows.change_rows`` all columns of a change log.
"""
