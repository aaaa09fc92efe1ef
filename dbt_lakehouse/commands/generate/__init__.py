"""`lakehouse generate`: the models of a topic's tables, written from what the topic carries.

scan       every payload of the topics in bronze, decoded and profiled by Spark
profile    what a table's events say about it: columns, keys, declared types, values
           (schema_blocks: what is declared; values: what all values of a column have in common)
types      the narrowest Spark type that loses nothing of them
naming     names of models and columns
sources    the change logs that are there already, and what they read
columns    from a profile to a model's columns
choices    which table the call means, and which columns are its key
models     the files of a new table
edit       changes to files that are there: only what is needed, between the lines of others
writer     decides what to write, and writes it
command    all of it in order; report says what has become of it
"""
