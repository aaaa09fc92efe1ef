"""Configuration, read and checked: paths, variables, topics, brokers, declared models."""
