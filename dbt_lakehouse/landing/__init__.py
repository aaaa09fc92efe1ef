"""Ways into bronze: captures and Kafka."""
