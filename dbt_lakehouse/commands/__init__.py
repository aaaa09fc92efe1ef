"""The implementation of the ``lakehouse`` commands."""
