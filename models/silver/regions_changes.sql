{{
    change_log(
        source_database="tpch",
        source_table="region",
        key={"r_regionkey": "int"},
        columns={
            "r_name": "string",
            "r_comment": "string",
        },
    )
}}
