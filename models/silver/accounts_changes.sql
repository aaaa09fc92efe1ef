{{
    change_log(
        source_database="crm",
        source_schema="public",
        source_table="accounts",
        key={"account_id": "bigint"},
        columns={
            "email": "string",
            "plan": "string",
            "monthly_fee": "decimal(10,2)",
            "seats": "int",
            "active": "boolean",
            "created_at": "timestamp",
        },
    )
}}
