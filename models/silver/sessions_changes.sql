{{
    aerospike_change_log(
        namespace="web",
        set="sessions",
        columns={
            "user_id": "bigint",
            "user_agent": "string",
            "started_at": "bigint",
            "page_views": "int",
            "landing_page": "string",
            "cart": "string",
            "cart_total": "double",
            "utm": "map<string,string>",
        },
    )
}}
