"""What dbt needs of us: methods that macros call, and dbt's own commands."""
