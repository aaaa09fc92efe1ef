"""The parts of the lake outside dbt: bronze, locks, the catalog, and Iceberg's view of tables."""
