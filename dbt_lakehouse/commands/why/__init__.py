"""`lakehouse why`: why a row of gold is what it is, or is absent, without Spark.

command   what is asked, in order; the row held against what the events make of it
events    the table, and the events of a key in its log
messages  the messages that they came in, decoded
report    what is told, for people and scripts
"""
