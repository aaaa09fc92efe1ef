"""What a project declares: change logs, what gold takes of them, and what has become of both."""
