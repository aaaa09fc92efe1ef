"""Readers of JSON and MessagePack; they know no vendor."""
