{{
    change_log(
        source_database="shop",
        source_schema="sales",
        source_table="orders",
        key={"order_id": "bigint"},
        columns={
            "customer_id": "int",
            "status": "string",
            "amount": "decimal(18,2)",
            "currency": "string",
            "placed_at": "timestamp",
            "shipped_at_micros": {"name": "shipped_at", "type": "bigint"},
            "note": "string",
        },
    )
}}
