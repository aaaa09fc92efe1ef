{{
    change_log(
        topic="lindorm\\.hbase\\.customers",
        source_database="ld-xxxx",
        source_schema="default",
        source_table="customers",
        key={
            "contact_id": {"name": "ROW", "type": "string", "encoding": "hbase"},
        },
        columns={
            "name": {"name": "f_name", "type": "string", "encoding": "hbase"},
            "city": {"name": "f_city", "type": "string", "encoding": "hbase"},
            "age": {"name": "f_age", "type": "int", "encoding": "hbase"},
            "points": {"name": "f_points", "type": "bigint", "encoding": "hbase"},
            "photo": {"name": "f_photo", "type": "binary", "encoding": "hbase"},
        },
    )
}}
