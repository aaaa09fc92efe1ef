"""`lakehouse init`: a dbt project of a user's, in a folder of its own."""
