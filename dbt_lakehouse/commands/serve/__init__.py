"""`lakehouse serve`: one Spark that answers the queries of many clients, as HiveServer2."""
