"""A dbt project and the Spark sessions of its lake: finding, opening, sharing, and error
messages.
"""
