{{
    aerospike_change_log(
        topic="aerospike\\.shop",
        namespace="shop",
        set="carts",
        columns={
            "customer": "string",
            "items": "bigint",
        },
    )
}}
