"""A dbt project and the Spark sessions of its lake: found, opened and shared, their errors told."""
