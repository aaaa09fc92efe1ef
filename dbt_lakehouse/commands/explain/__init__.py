"""`lakehouse explain`: a payload as an annotated tree of its bytes, without Spark.

command      what is asked: the format, the events, the trees of key and value, what is told
source       where the message comes from: a file, hex, base64, bronze
guess        which format a payload is of, by what the decoders accept
nodes        the tree: where each value is, what it is called, what became of it
messagepack  bytes as a tree
json_tree    text as a tree
aerospike    what the parts of Aerospike's messages are called, and what became of them
debezium     the same of envelopes and schema blocks
report       what is told, for people and scripts

The decoders say what is decoded and what is wrong; this only shows where.
"""
