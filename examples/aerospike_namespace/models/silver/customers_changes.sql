{{
    aerospike_change_log(
        topic="aerospike\\.shop",
        namespace="shop",
        set="customers",
        columns={
            "email": "string",
            "city": "string",
        },
    )
}}
