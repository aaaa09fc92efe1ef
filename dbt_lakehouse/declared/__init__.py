"""Declarations of a project: change logs, what gold takes from them, and changes to both."""
