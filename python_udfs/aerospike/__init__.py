"""Aerospike's wire formats: MessagePack and JSON."""
