"""``bronze.raw_payloads``: every Kafka message exactly as it came, and the one way to append to
it.
"""

from typing import Final

from pyspark.sql import SparkSession

TABLE: Final = "lake.bronze.raw_payloads"


def create_table(spark: SparkSession) -> None:
    """Create the table if it is missing. It is no dbt model, so that no full refresh can drop
    it.
    """
    spark.sql(
        f"""
        create table if not exists {TABLE} (
            topic string not null comment 'Kafka topic',
            partition int not null comment 'Kafka partition',
            offset bigint not null comment 'Kafka offset',
            timestamp timestamp comment 'Kafka timestamp',
            timestamp_type int comment '0 CreateTime, 1 LogAppendTime',
            key binary comment 'message key as bytes, null if the message has none',
            value binary comment 'message value as bytes, null for a Kafka tombstone',
            headers array<struct<key: string, value: binary>> comment 'message headers in order',
            landed_at timestamp not null comment 'when the row was appended here'
        )
        using iceberg
        partitioned by (days(landed_at))
        tblproperties ('write.distribution-mode' = 'none', 'write.spark.fanout.enabled' = 'true')
        """
    )
