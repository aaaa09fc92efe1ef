"""`lakehouse init`: a new dbt project in a folder of its own."""
