"""Maintenance of tables: their policies, and what is done by them."""
