"""`lakehouse generate`: the models of a topic's tables, written from what the topic carries.

scan       every payload of the topics in bronze, decoded and profiled by Spark
profile    what a table's events say about it: columns, keys, declared types, values
           (schema_blocks: what is declared; values: what all values of a column have in common)
types      the narrowest Spark type that loses nothing of them
naming     names of models and columns
sources    the existing change logs, and their inputs
columns    from a profile to a model's columns
choices    which table the call means, and which columns are its key
models     the files of a new table
edit       changes to existing files: only the necessary lines, between those of others
writer     decides what to write, and writes it
command    all of it in order; report says what has become of it
"""
