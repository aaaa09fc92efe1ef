"""Run models: decisions in Python, SQL from templates (``sql/``)."""
