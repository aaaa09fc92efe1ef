"""Maintenance of tables: their policies, what is done by them, and who may still read what."""
