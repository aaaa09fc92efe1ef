"""Plain folds that say what the tables must hold. They share nothing with the SQL."""
