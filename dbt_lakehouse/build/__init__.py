"""What runs a model: it decides in Python, and says its SQL by templates (``sql/``)."""
