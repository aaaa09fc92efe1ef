"""Debezium's envelope and its dialects: Debezium, Arcion, Lindorm."""
