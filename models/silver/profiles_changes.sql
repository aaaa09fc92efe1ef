{{
    aerospike_change_log(
        namespace="users",
        set="profiles",
        columns={
            "email": "string",
            "display_name": "string",
            "age": "int",
            "balance": "double",
            "is_vip": "boolean",
            "preferences": "string",
            "visited_cities": "array<string>",
            "home": "string",
            "avatar": "binary",
            "visitors": "binary",
            "legacy_obj": "binary",
            "places": "string",
        },
    )
}}
