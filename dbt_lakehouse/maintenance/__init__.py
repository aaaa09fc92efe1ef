"""Maintenance of tables: their policies, its steps, and the readers' marks that it keeps valid."""
