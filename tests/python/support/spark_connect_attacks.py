"""What clients of Spark Connect could ask beside queries: by PySpark's own methods, and in messages
that PySpark does not send.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import zstandard
from pyspark.sql.connect import functions as f
from pyspark.sql.connect.proto import (
    AnalyzePlanRequest,
    Command,
    ExecutePlanRequest,
    Plan,
    Range,
    Relation,
)
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.window import Window
from pyspark.sql.datasource import DataSource

from support.serve_statements import BEHIND_NAMES

RANGE: Final = Relation(range=Range(start=0, end=3, step=1))
_SECRET: Final = "/etc/passwd"
_UDT: Final = {"jvm_class": "java.lang.Thread"}
_UDF: Final = {
    "function_name": "x",
    "scalar_scala_udf": {"payload": b"x"},
}
# Within an expression: a program, a file, another catalog, any method of Java.
_EXPRESSIONS: Final = (
    "(select transform(r_name) using 'cat' from gold.regions)",
    f"exists(select * from text.`{_SECRET}`)",
    "(select count(*) from spark_catalog.gold.regions)",
    "reflect('java.lang.System', 'exit', 1)",
    # Behind a name that Spark knows only after the text is parsed.
    *(
        each.removeprefix("select ")
        for each in BEHIND_NAMES
        if each.startswith("select identifier(") and " from gold.regions" not in each
    ),
)
# A default value is SQL that Spark parses by itself.
_DEFAULT: Final = (
    '{"type": "struct", "fields": [{"name": "x", "type": "string", "nullable": true, "metadata":'
    ' {"EXISTS_DEFAULT": "upper(\'a\')"}}]}'
)


class Source(DataSource):
    """One that a client brings."""


def attacks(spark: SparkSession, folder: Path) -> dict[str, Callable[[], Any]]:
    """What has to be refused; ``folder`` must not be there afterwards."""
    table: Any = spark.table("gold.regions")
    shout: Any = f.udf(lambda text: f"{text}!")
    shouted = shout("r_name")
    (code := folder.with_suffix(".py")).write_text("x = 1")
    # A function of tables.
    rows: Any = f.udtf(type("Rows", (), {"eval": None}), returnType="x int")
    catalog, read, write = spark.catalog, spark.read, table.write
    found: dict[str, Callable[[], Any]] = {
        # Writing.
        "append": lambda: write.mode("append").saveAsTable("gold.regions"),
        "insert": lambda: write.insertInto("gold.regions"),
        "files": lambda: write.parquet(str(folder)),
        "create": lambda: table.writeTo("gold.x").create(),
        "replace": lambda: table.writeTo("gold.regions").replace(),
        "overwrite": lambda: table.writeTo("gold.regions").overwritePartitions(),
        "merge": lambda: (
            table.mergeInto("gold.regions", f.lit(True)).whenMatched().delete().merge()
        ),
        "view": lambda: table.createOrReplaceTempView("x"),
        "global view": lambda: table.createGlobalTempView("x"),
        "catalog: table": lambda: catalog.createTable("gold.x", schema=table.schema),
        "catalog: files": lambda: catalog.createTable("x", _SECRET, "text"),
        "catalog: view": lambda: catalog.dropTempView("x"),
        "catalog: global": lambda: catalog.dropGlobalTempView("x"),
        "catalog: partitions": lambda: catalog.recoverPartitions("gold.regions"),
        "catalog: cache": lambda: catalog.cacheTable("gold.regions"),
        "catalog: uncache": lambda: catalog.uncacheTable("gold.regions"),
        "catalog: clear": catalog.clearCache,
        "catalog: refresh": lambda: catalog.refreshTable("gold.regions"),
        "catalog: path": lambda: catalog.refreshByPath("/etc"),
        "catalog: other": lambda: catalog.setCurrentCatalog("spark_catalog"),
        "catalog: its schema": lambda: catalog.setCurrentDatabase("spark_catalog.gold"),
        "catalog: its tables": lambda: catalog.listTables("spark_catalog.gold"),
        "catalog: its table": lambda: catalog.getTable("spark_catalog.gold.regions"),
        "persist": table.persist,
        "checkpoint": table.checkpoint,
        "stream": lambda: (
            spark.readStream.table("gold.regions").writeStream.format("console").start()
        ),
        "streams": lambda: spark.streams.active,
        # Reading of what is not a table of the lake.
        "text": lambda: read.text(_SECRET).collect(),
        "json": lambda: read.json(_SECRET).collect(),
        "parquet": lambda: read.parquet(str(folder)).schema,
        "format": lambda: read.format("binaryFile").load(_SECRET).schema,
        "iceberg": lambda: read.format("iceberg").load("gold.regions").collect(),
        "jdbc": lambda: read.jdbc("jdbc:sqlite:/tmp/x", "x").collect(),
        "options": lambda: read.option("x", "y").table("gold.regions").collect(),
        "rate": lambda: spark.readStream.format("rate").load().schema,
        "file as table": lambda: spark.table(f"text.`{_SECRET}`").collect(),
        "other catalog": lambda: spark.table("spark_catalog.gold.regions").collect(),
        "quoted": lambda: spark.table("`Spark_Catalog`.gold.regions").schema,
        "paths": table.inputFiles,
        "data": lambda: spark.createDataFrame([(1,)], ["x"]).collect(),
        "no data": lambda: spark.createDataFrame([], "x int").collect(),
        # Functions and files of the client's.
        "udf": lambda: table.select(shouted).collect(),
        "udf: schema": lambda: table.select(shouted).schema,
        "udf: filter": lambda: table.filter(shouted == "x").count(),
        "udf: group": lambda: table.groupBy(shouted).count().collect(),
        "udf: join": lambda: table.join(table, shouted == "x").collect(),
        "udf: sort": lambda: table.sort(shouted).collect(),
        "udf: column": lambda: table.withColumn("x", f.struct(f.array(shouted))).collect(),
        "udf: window": lambda: table.select(
            f.max("r_name").over(Window.partitionBy(shouted))
        ).collect(),
        "udf: subquery": lambda: table.select(
            table.select(f.max(shouted)).scalar().alias("x")
        ).collect(),
        "udf: lambda": lambda: table.select(f.transform(f.array("r_name"), shout)).collect(),
        "udf: parameter": lambda: spark.sql("select :x", {"x": shout(f.lit(1))}).collect(),
        "udf: frame": lambda: spark.sql("select * from {x}", x=table.select(shouted)).collect(),
        "udtf": lambda: rows().collect(),
        "register": lambda: spark.udf.register("x", lambda: 1),
        "register java": lambda: spark.udf.registerJavaFunction("x", "java.lang.Thread"),
        "register source": lambda: spark.dataSource.register(Source),
        "map pandas": lambda: table.mapInPandas(lambda rows: rows, "x int").collect(),
        "map arrow": lambda: table.mapInArrow(lambda rows: rows, "x int").collect(),
        "group map": lambda: table.groupBy("r_name").applyInPandas(lambda x: x, "x int").collect(),
        "co-group map": lambda: (
            table.groupBy("r_name")
            .cogroup(table.groupBy("r_name"))
            .applyInPandas(lambda x, y: x, "x int")
            .collect()
        ),
        "artifact": lambda: spark.addArtifacts(str(code), pyfile=True),
        "copy": lambda: spark.copyFromLocalToFs(str(code), str(folder)),
        "call": lambda: table.select(f.call_function("reflect", f.lit("x"), f.lit("y"))).collect(),
        "java": lambda: table.select(f.call_udf("java_method", f.lit("x"), f.lit("y"))).collect(),
        "default value": lambda: table.select(f.from_json("r_name", _DEFAULT)).collect(),
        "default value: schema": lambda: table.select(f.from_json("r_name", _DEFAULT)).schema,
        "clone": lambda: spark.client.clone(),
        # Settings.
        "set": lambda: spark.conf.set("spark.sql.runSQLOnFiles", "true"),
        "unset": lambda: spark.conf.unset("spark.sql.runSQLOnFiles"),
        "get": lambda: spark.conf.get("spark.sql.catalog.lake.uri"),
        "default": lambda: spark.conf.get("spark.sql.catalog.lake.uri", "x"),
        "all": lambda: spark.conf.getAll,
    }
    for text in _EXPRESSIONS:
        text = text.format(folder=folder, warehouse=folder)
        found[f"select {text}"] = partial(table.selectExpr(text).collect)
        found[f"schema of {text}"] = partial(getattr, table.selectExpr(text), "schema")
        found[f"where {text}"] = partial(table.filter(f"({text}) is null").count)
    return found


def messages() -> dict[str, ExecutePlanRequest | AnalyzePlanRequest]:
    """The same in messages."""
    within = {"limit": {"limit": 1, "input": RANGE}}
    unknown = Relation.FromString(RANGE.SerializeToString() + b"\xfa\x7f\x01x")
    found: dict[str, ExecutePlanRequest | AnalyzePlanRequest] = {
        "compressed": execution(
            compressed_operation={
                "data": zstandard.compress(RANGE.SerializeToString()),
                "op_type": Plan.CompressedOperation.OP_TYPE_RELATION,
                "compression_codec": 1,
            }
        ),
        "unknown field": execution(root=unknown),
        "unknown field within": execution(root={"limit": {"limit": 1, "input": unknown}}),
        "cached": execution(root={"cached_local_relation": {"hash": "x"}}),
        "schema": execution(
            root={
                "local_relation": {"schema": '{"type": "udt", "class": "x", "sqlType": "integer"}'}
            }
        ),
        "serialized function": _expression(common_inline_user_defined_function=_UDF),
        "serialized as parameter": _command(
            sql_command={
                "sql": "select :x",
                "named_arguments": {"x": {"common_inline_user_defined_function": _UDF}},
            }
        ),
        "serialized in a subquery": execution(
            root={
                "with_relations": {
                    "root": RANGE,
                    "references": [
                        within,
                        {"map_partitions": {"input": RANGE, "func": _UDF}},
                    ],
                }
            }
        ),
        "class": _expression(cast={"type": {"udt": _UDT}, "expr": {"literal": {"integer": 1}}}),
        "class within": _expression(
            literal={
                "null": {
                    "array": {
                        "element_type": {
                            "struct": {"fields": [{"name": "x", "data_type": {"udt": _UDT}}]}
                        }
                    }
                }
            }
        ),
        "typed aggregate": _expression(typed_aggregate_expression={"scalar_scala_udf": {}}),
        "ml": _command(ml_command={"clean_cache": {}}),
        "pipeline": _command(pipeline_command={"create_dataflow_graph": {}}),
        "resources": _command(get_resources_command={}),
        "resource profile": _command(create_resource_profile_command={}),
        "program": _command(execute_external_command={"runner": "x", "command": "x"}),
        "class of JSON": _analysis(json_to_ddl={"json_string": '{"type": "udt"}'}),
        # Nothing could stop it.
        "rows in an analysis": _schema_of(show_string={"input": RANGE, "num_rows": 1}),
        "values in an analysis": _schema_of(
            aggregate={"input": RANGE, "pivot": {"col": {"literal": {"integer": 1}}}}
        ),
        "table dropped in an analysis": _schema_of(sql={"query": "drop table gold.regions"}),
    }
    packed = Relation()
    packed.extension.Pack(RANGE)
    found["extension"] = execution(root=packed)
    for name, extend in {
        "extension of a command": _in_command,
        "extension of an expression": _in_expression,
        "extension of a user": _in_user,
        "extension of a request": _in_request,
    }.items():
        found[name] = request = execution(root=RANGE)
        extend(request).Pack(RANGE)
    return found


def _in_command(request: ExecutePlanRequest) -> Any:
    return request.plan.command.extension


def _in_expression(request: ExecutePlanRequest) -> Any:
    return request.plan.root.project.expressions.add().extension


def _in_user(request: ExecutePlanRequest) -> Any:
    return request.user_context.extensions.add()


def _in_request(request: ExecutePlanRequest) -> Any:
    return request.request_options.add().extension


def execution(**plan: Any) -> ExecutePlanRequest:
    """A request to execute this."""
    return ExecutePlanRequest(plan=Plan(**plan))


def _command(**command: Any) -> ExecutePlanRequest:
    return execution(command=Command(**command))


def _expression(**expression: Any) -> ExecutePlanRequest:
    return execution(root={"project": {"input": RANGE, "expressions": [expression]}})


def _analysis(**of: Any) -> AnalyzePlanRequest:
    return AnalyzePlanRequest(**of)


def _schema_of(**relation: Any) -> AnalyzePlanRequest:
    return _analysis(schema={"plan": {"root": relation}})
