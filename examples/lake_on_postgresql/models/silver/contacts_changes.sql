{{
    change_log(
        topic="crm\\.public\\.contacts",
        source_database="crm",
        source_schema="public",
        source_table="contacts",
        key={"contact_id": "bigint"},
        columns={
            "email": "string",
            "subscribed": "boolean",
        },
    )
}}
