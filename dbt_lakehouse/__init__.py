"""Everything around the decoders that dbt and the command line need: session, jars, functions,
landing, commands.
"""
