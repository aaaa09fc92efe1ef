"""Queries of the lake's tables without Spark, and the forms in which they are shown."""
