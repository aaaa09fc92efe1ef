"""The adapter's version, in the place where dbt looks for it; pyproject.toml has the same."""

version = "0.1.0"
