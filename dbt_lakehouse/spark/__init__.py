"""The Spark session of the lake: jars, settings, SQL functions, evaluated views."""
