"""What measures the project: ``python -m tools.benchmarks --help``.

measuring        what all benchmarks share
payloads         the messages that they read, from seeds
lake             a lake and a dbt project of a benchmark's own
handwritten      whole pipelines as one would write them without us, to compare with
kafka_landing    stands for itself (make bench-kafka): it needs a broker
rivals           stands for itself (make bench-rivals): it needs other PySparks
"""
