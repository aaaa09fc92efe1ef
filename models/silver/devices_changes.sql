{{
    aerospike_change_log(
        namespace="iot",
        set="devices",
        columns={
            "serial": "string",
            "model": "string",
            "firmware": "string",
            "battery": "int",
            "temperature": "double",
            "online": "boolean",
            "location": "string",
            "tags": "array<string>",
            "settings": "string",
            "calibration": "binary",
        },
    )
}}
