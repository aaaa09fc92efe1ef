"""Real servers on this machine, without installing one: a Kafka broker for the demo and the tests,
and a PostgreSQL and Kafka Connect with Debezium beside it.

broker     starts, stops and kills it, and sees to it that it never stays behind
jars       what it is made of
server_properties  its settings
folders    one broker at a time for each data folder
captures   topics from captures
demo       changes from a producer to gold
servers    other programs, stopped when a block ends
postgres   a PostgreSQL
connect    Kafka Connect with Debezium's connectors, whose jars are in the lists beside it
demo_debezium  changes of a PostgreSQL to gold
"""
