"""A real Kafka broker on this machine, without installing one: for the demo and the tests."""
