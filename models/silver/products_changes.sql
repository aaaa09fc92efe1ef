{{
    change_log(
        source_database="inventory",
        source_table="products",
        key={"id": "int"},
        columns={
            "sku": "string",
            "name": "string",
            "description": "string",
            "weight": "double",
            "price": "decimal(10,2)",
            "tags": "string",
            "status": "string",
            "dims": "string",
            "released": "date",
            "updated_at": "timestamp",
            "created_at": "timestamp_ntz",
            "checked_at": "timestamp_ntz",
            "year_made": "int",
            "duration": "string",
        },
    )
}}
