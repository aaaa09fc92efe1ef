{{
    change_log(
        topic="erp\\.billing\\.invoices",
        source_database="erp",
        source_schema="billing",
        source_table="invoices",
        key={"invoice_id": "bigint"},
        columns={
            "customer": "string",
            "total": "decimal(12,2)",
            "due_on": "date",
        },
    )
}}
