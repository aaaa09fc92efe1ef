"""Spark and its JVM: jars, Java, private handles, SQL functions, evaluated views."""
