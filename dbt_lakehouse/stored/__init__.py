"""Messages in the lake, for the commands that show them: read without Spark."""
