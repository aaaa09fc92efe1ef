"""`lakehouse explain`: a payload as an annotated tree of its bytes, without Spark.

arguments    which message is meant
source       one that is given: hex, base64, a line of captures
landed       one that has landed, from bronze
command      the format, the events, the trees of key and value, the error
guess        which format a payload is of, by what the decoders accept
nodes        the tree: where each value is, what it is called, what became of it
messagepack  bytes as a tree
json_tree    text as a tree
columns      the columns of an event, for the parts that became them
aerospike    what the parts of Aerospike's messages are called, and what became of them
debezium     the same of envelopes and schema blocks
report       what is told, for people and scripts

The decoders give the events and errors; this package only shows their places.
"""
