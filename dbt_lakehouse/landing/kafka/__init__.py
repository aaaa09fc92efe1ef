"""Kafka as a transport into ``bronze.raw_payloads``, in batches and as a stream.

settings    the profile's ``kafka.*``
admin       what the broker says of topics, partitions and offsets, quickly or not at all
positions   where bronze is, read from bronze itself
reading     ranges of offsets, and their messages as rows of bronze
continuity  whether Kafka goes on where bronze is: gaps, topics created again
batch       one atomic append of new messages
stream      the same, every few seconds
status      how far behind
"""
