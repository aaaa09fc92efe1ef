"""`lakehouse generate`: the models of a topic's tables, written from what the topic carries.

scan       every payload of the topics in bronze, decoded and profiled by Spark
profile    what a table's events say about it: columns, keys, declared types, values
types      the narrowest Spark type that loses nothing of them
naming     names of models and columns
sources    the change logs that are there already, and what they read
models     the files of a new table
edit       changes to files that are there: only what is needed, between the lines of others
command    all of it in order
"""
