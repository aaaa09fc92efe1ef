{{
    change_log(
        topic="lindorm\\.customers",
        source_database="ld-xxxx",
        source_schema="default",
        source_table="customers",
        key={"id": "string"},
        columns={
            "name": "string",
            "first_name": "string",
            "last_name": "string",
            "email": "string",
            "city": "string",
            "loyalty_points": "int",
            "newsletter": "boolean",
        },
    )
}}
