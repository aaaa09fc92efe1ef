"""Declared types: what a change log's columns are made of, from the texts that decoders give.

A value from its text is ``values.typed``, the definition; ``columns.typed_column`` gives the same
for a whole column, and ``rows.change_rows`` all columns of a change log.
"""
