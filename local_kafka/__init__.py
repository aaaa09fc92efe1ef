"""A real Kafka broker on this machine, without installing one: for the demo and the tests.

broker     starts, stops and kills it, and sees to it that it never stays behind
jars       what it is made of
server_properties  its settings
folders    one broker at a time for each data folder
captures   topics from captures
demo       changes from a producer to gold
"""
