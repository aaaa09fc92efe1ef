"""Plain folds that define what the tables must hold. They share nothing with the SQL."""
