"""Messages that the lake has, for the commands that show them: read without Spark."""
