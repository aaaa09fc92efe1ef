"""What dbt and the command line need around the decoders: session, jars, functions, landing,
commands.
"""
