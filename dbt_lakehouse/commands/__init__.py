"""What the commands of ``lakehouse`` do."""
