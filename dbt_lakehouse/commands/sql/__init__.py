"""`lakehouse sql`: queries of the lake's tables without Spark."""
