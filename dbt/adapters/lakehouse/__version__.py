"""Where dbt looks for an adapter's version; pyproject.toml has the same."""

version = "0.1.0"
