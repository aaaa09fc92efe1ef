"""What is not dbt's in the lake: bronze, its locks, Iceberg's own view of tables."""
