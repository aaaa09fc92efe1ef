"""Statements for `lakehouse serve`: those that it refuses, those that would reach a file or an
address, and those that analysts ask.
"""

import json
from typing import Final

# What must be nowhere in a query: a program, options of a table, another catalog, files, Java.
_HIDDEN: Final = (
    "(select max(x) from (select transform(1) using 'touch {folder}' as (x string)))",
    "(select max(r_name) from gold.regions with ('path' = '{folder}'))",
    "(select max(r_name) from spark_catalog.gold.regions)",
    "(select max(value) from text.`/etc/passwd`)",
    "(select max(r_name) from lake.`{warehouse}/gold/regions`)",
    "reflect('java.lang.System', 'exit', 1)",
    "identifier('java_' || 'method')('java.lang.System', 'exit', 1)",
)
# A call of a function whose name Spark knows only after the statement is parsed, and all that may
# stand in it or behind it.
_AROUND: Final = (
    "select identifier('count')(1) filter (where {hidden} is null)",
    "select identifier('co' || 'unt')(1) filter (where {hidden} is null) from gold.regions",
    "select identifier('count')(distinct {hidden}) from gold.regions",
    "select identifier('first')({hidden}) ignore nulls from gold.regions",
    "select identifier('max')(1) over (partition by {hidden}) from gold.regions",
    "select identifier('max')(1) over (order by {hidden}) from gold.regions",
    "select identifier('max')(1) over w from gold.regions window w as (order by {hidden})",
    "select identifier('listagg')(r_name) within group (order by {hidden}) from gold.regions",
    "select identifier('mask')(str => 'a', upperChar => {hidden})",
    "select identifier('transform')(array(1), x -> {hidden})",
    "select identifier({hidden})",
    "select identifier({hidden})(1)",
    "select * from identifier('explode')(array({hidden}))",
    "select identifier('count')(1) filter (where (select identifier('max')(1) filter (where"
    " exists(select identifier('max')(1) over (order by {hidden}))) from gold.regions) is null)",
    "select * from gold.regions order by identifier('upper')({hidden})",
    "describe query select identifier('count')(1) filter (where {hidden} is null)",
)
BEHIND_NAMES: Final = tuple(
    around.replace("{hidden}", hidden) for around in _AROUND for hidden in _HIDDEN
)

REFUSED: Final = (
    "insert into gold.regions select * from gold.regions",
    "insert overwrite gold.regions select * from gold.regions",
    "from gold.regions insert into gold.regions select *",
    "merge into gold.regions r using gold.regions s on r.r_regionkey = s.r_regionkey"
    " when matched then delete",
    "update gold.regions set r_name = 'x'",
    "delete from gold.regions",
    "truncate table gold.regions",
    "drop table gold.regions",
    "drop table identifier('gold.regions')",
    "drop view gold.regions",
    "drop schema gold cascade",
    "alter table gold.regions add column x int",
    "alter table gold.regions set tblproperties ('x' = 'y')",
    "alter table gold.regions create branch x",
    "comment on table gold.regions is 'x'",
    "create table gold.x (id int)",
    "create table gold.x as select 1 as id",
    "create or replace table gold.regions as select 1 as id",
    "create schema x",
    "create view gold.x as select 1 as id",
    "create temporary view x as select 1 as id",
    "create function x as 'java.lang.String'",
    "create temporary function x() returns int return 1",
    "add jar '/tmp/x.jar'",
    "add file '/etc/passwd'",
    "list jars",
    "cache table gold.regions",
    "analyze table gold.regions compute statistics",
    "insert overwrite directory '{folder}' using csv select 1",
    "insert overwrite local directory '{folder}' using csv select 1",
    "call lake.system.rewrite_data_files('gold.regions')",
    "call lake.system.remove_orphan_files('gold.regions')",
    "explain call lake.system.rewrite_data_files('gold.regions')",
    "execute immediate 'drop table gold.regions'",
    "begin drop table gold.regions; end",
    "declare variable x int",
    "select transform(r_name) using 'touch {folder}' from gold.regions",
    "select (select max(x) from (select transform(r_name) using 'cat' as x from gold.regions))",
    "with x as (select transform(r_name) using 'cat' as y from gold.regions) select * from x",
    "select identifier('reflect')('java.lang.System', 'exit', 1)",
    "select exists(array(1), x -> java_method('java.lang.System', 'exit', x))",
    "select * from gold.regions timestamp as of reflect('java.lang.System', 'exit', 1)",
    "select * from gold.regions with ('path' = '/etc/passwd')",
    "select * from gold.regions with ('split-size' = '1')",
    "select * from text.`/etc/passwd`",
    "select * from iceberg.`{warehouse}/gold/regions`",
    "select * from lake.`{warehouse}/gold/regions`",
    "select * from spark_catalog.gold.regions",
    "use spark_catalog",
    "set catalog spark_catalog",
    "set",
    "set -v",
    "set spark.sql.catalog.lake.uri",
    "set spark.sql.catalog.lake.uri=jdbc:sqlite:x",
    "set spark.sql.catalog.other=org.apache.iceberg.spark.SparkCatalog",
    "set spark.sql.extensions=x",
    "set spark.sql.runSQLOnFiles=true",
    "set spark.sql.variable.substitute=true",
    "reset",
    "select * from identifier('gold.regions')",
    "select * from identifier('spark_' || 'catalog.gold.regions')",
    "use identifier('spark_catalog')",
    *BEHIND_NAMES,
)


# Spark makes one of the class that a schema names, whichever it is.
CLASS_IN_A_SCHEMA: Final = (
    "select from_json('{}', '"
    '{"type": "struct", "fields": [{"name": "x", "nullable": true, "metadata": {}, "type": {"type":'
    ' "udt", "class": "org.apache.spark.mllib.linalg.VectorUDT", "pyClass": "", "sqlType": ""}}]}'
    "')"
)


def _with_default(default: str, within: str = "{}") -> str:
    """A schema of one column, ``x``, as JSON in a literal of SQL, for ``str.format``."""
    column = {"name": "x", "type": "string", "nullable": True}
    metadata = {"EXISTS_DEFAULT": default, "CURRENT_DEFAULT": default}
    schema = json.dumps({"type": "struct", "fields": [{**column, "metadata": metadata}]})
    text = within.replace("{}", schema).replace("\\", "\\\\").replace("'", "\\'")
    return "'" + text.replace("{", "{{").replace("}", "}}").replace("{{place}}", "{place}") + "'"


_FETCHING: Final = "from_xml('<a/>', 'a string', map('rowValidationXSDPath', '{place}')).a"
_IN_AN_ARRAY: Final = '{"type": "array", "containsNull": true, "elementType": {}}'
_IN_A_MAP: Final = (
    '{"type": "map", "keyType": "string", "valueContainsNull": true, "valueType": {}}'
)
# Spark parses and computes the default values of a schema by itself.
DEFAULTS: Final = (
    f"select from_json('{{{{}}}}', {_with_default(_FETCHING)})",
    f"select from_json('{{{{}}}}', {_with_default(_FETCHING.replace('from_xml', 'FROM_XML'))})",
    "select from_json('{{}}', "
    + _with_default("schema_of_xml('<a/>', map('rowValidationXSDPath', '{place}'))")
    + ")",
    "select from_json('{{}}', "
    + _with_default("identifier('from_' || 'xml')" + _FETCHING.removeprefix("from_xml"))
    + ")",
    "select from_json('{{}}', "
    + _with_default("java_method('java.nio.file.Files', 'readString', '{place}')")
    + ")",
    f"select from_json('[{{{{}}}}]', {_with_default(_FETCHING, _IN_AN_ARRAY)})",
    f"select from_json('{{{{\"k\": {{{{}}}}}}}}', {_with_default(_FETCHING, _IN_A_MAP)})",
    f"select from_csv('', {_with_default(_FETCHING)})",
    f"select from_xml('<a/>', {_with_default(_FETCHING)})",
    f"select variant_get(parse_json('{{{{}}}}'), '$', {_with_default(_FETCHING)})",
    f"select identifier('from_json')('{{{{}}}}', {_with_default(_FETCHING)})",
)

# Where {place} is a file or an address. Spark fetched it for some of them.
REACHING: Final = (
    "select from_xml('<a>1</a>', 'a int', map('rowValidationXSDPath', '{place}'))",
    "select from_xml('<a>1</a>', 'a int', map('RoWvalidationxsdPATH', '{place}'))",
    "select from_xml('<a>1</a>', 'a int', map(concat('rowValidation', 'XSDPath'), '{place}'))",
    "select from_xml('<a>1</a>', 'a int', map('mode', 'FAILFAST', unhex('726F7756616C69646174696F6E"
    "58534450617468')::string, '{place}'))",
    "select schema_of_xml('<a>1</a>', map('rowValidationXSDPath', '{place}'))",
    "select from_xml('<a>1</a>', schema_of_xml('<a>1</a>', map('rowValidationXSDPath',"
    " '{place}')))",
    "select to_xml(named_struct('a', 1), map('rowValidationXSDPath', '{place}'))",
    "select from_json('1', 'int', map('rowValidationXSDPath', '{place}'))",
    "select identifier('from_' || 'xml')('<a/>', 'a int', map('rowValidationXSDPath', '{place}'))",
    "select transform(array('<a>1</a>'), x -> from_xml(x, 'a int', map('rowValidationXSDPath',"
    " '{place}')))",
    "select * from lateral (select from_xml('<a/>', 'a int', map('rowValidationXSDPath',"
    " '{place}')))",
    "with x as (select from_xml(r_name, 'a int', map('rowValidationXSDPath', '{place}')) from"
    " gold.regions) select * from x",
    "from gold.regions |> where from_xml(r_name, 'a int', map('rowValidationXSDPath',"
    " '{place}')) is null",
    "select * from gold.regions where exists (select from_xml(r_name, 'a int',"
    " map('rowValidationXSDPath', '{place}')))",
    "select * from gold.regions order by from_xml(r_name, 'a int', map('rowValidationXSDPath',"
    " '{place}')).a",
    "select max(r_name) filter (where from_xml(r_name, 'a int', map('rowValidationXSDPath',"
    " '{place}')) is null) from gold.regions",
    "select * from explode(array(from_xml('<a/>', 'a int', map('rowValidationXSDPath',"
    " '{place}'))))",
    "select * from gold.regions timestamp as of from_xml('<a>1</a>', 'a timestamp',"
    " map('rowValidationXSDPath', '{place}')).a",
    "describe query select from_xml('<a/>', 'a int', map('rowValidationXSDPath', '{place}'))",
    "explain select from_xml('<a/>', 'a int', map('rowValidationXSDPath', '{place}'))",
    "execute immediate 'select from_xml(''<a/>'', ''a int'', map(''rowValidationXSDPath'',"
    " ''{place}''))'",
    "select from_avro(x'00', '\"int\"', map('avroSchemaUrl', '{place}'))",
    "select from_protobuf(x'00', 'A', '{place}')",
    "select to_protobuf(named_struct('a', 1), 'A', '{place}')",
    "select from_protobuf(x'00', 'A', '{place}', map('mode', 'FAILFAST'))",
    "select java_method('java.nio.file.Files', 'readString', '{place}')",
    "select * from csv.`{place}`",
    "select * from xml.`{place}`",
    "select to_json(named_struct('a', 1), map('compression', '{place}'))",
    *DEFAULTS,
)
# Spark itself refuses them: a map that is not written out, a function that it does not have.
REACHING_IN_VAIN: Final = (
    "select * from read_files('{place}')",
    "select from_xml('<a/>', 'a int', map_from_arrays(array('rowValidationXSDPath'),"
    " array('{place}')))",
    "select from_xml('<a/>', 'a int', map_concat(map('rowValidationXSDPath', '{place}'), map()))",
    "select from_xml('<a/>', 'a int', str_to_map('rowValidationXSDPath={place}', ',', '='))",
    "select from_xml('<a/>', 'a int', from_json('{{\"rowValidationXSDPath\":\"{place}\"}}',"
    " 'map<string, string>'))",
    "select from_xml('<a/>', 'a int', if(true, map('rowValidationXSDPath', '{place}'), null))",
    "select from_xml('<a/>', 'a int', m) from (select map('rowValidationXSDPath', '{place}') as m)",
    "select from_xml('<a/>', 'a int', map(k, '{place}')) from values"
    " ('rowValidationXSDPath') as t(k)",
)
OPTION_TAKERS: Final = (
    "from_xml('<a/>', 'a int', {options})",
    "schema_of_xml('<a/>', {options})",
    "to_xml(named_struct('a', 1), {options})",
    "from_json('1', 'int', {options})",
    "schema_of_json('1', {options})",
    "to_json(named_struct('a', 1), {options})",
    "from_csv('1', 'a int', {options})",
    "schema_of_csv('1', {options})",
    "to_csv(named_struct('a', 1), {options})",
)

# What these documents name, Java's parser is not let to look at.
_NAMING: Final = (
    '<!DOCTYPE a SYSTEM "{place}"><a>1</a>',
    '<!DOCTYPE a PUBLIC "-//x//y" "{place}"><a>1</a>',
    '<!DOCTYPE a [<!ENTITY e SYSTEM "{place}">]><a>&e;</a>',
    '<!DOCTYPE a [<!ENTITY % e SYSTEM "{place}"> %e;]><a>1</a>',
    '<?xml-stylesheet type="text/xsl" href="{place}"?><a>1</a>',
    '<a xmlns:x="http://www.w3.org/2001/XMLSchema-instance"'
    ' x:noNamespaceSchemaLocation="{place}">1</a>',
    '<a xmlns:x="http://www.w3.org/2001/XInclude"><x:include href="{place}" parse="text"/></a>',
)
DOCUMENTS: Final = (
    *(f"select xpath_string('{each}', 'a')" for each in _NAMING),
    *(f"select from_xml('{each}', 'a string')" for each in _NAMING),
    f"select schema_of_xml('{_NAMING[0]}')",
    # Where nothing is computed beforehand.
    f"select xpath(concat('{_NAMING[0]}', substring(r_name, 1, 0)), 'a/b') from gold.regions",
)

# What is left to everybody, with the first column of the first row.
ANSWERED: Final[dict[str, object]] = {
    "select from_json('{\"a\": 1}', 'a int', map('MODE', 'FAILFAST')).a": 1,
    "select from_json('{\"a\": 1,}', schema_of_json('{\"a\": 1}')).a": None,
    "select from_csv('1;2', 'a int, b int', map('sep', ';')).b": 2,
    "select from_xml('<a><b>1</b></a>', 'b int', map('rowTag', 'a', 'valueTag', 'v')).b": 1,
    "select schema_of_csv('1|a', map('sep', '|'))": "STRUCT<_c0: INT, _c1: STRING>",
    "select schema_of_xml('<a><b>1</b></a>')": "STRUCT<b: BIGINT>",
    "select to_json(named_struct('a', null), map('ignoreNullFields', 'false'))": '{"a":null}',
    "select to_csv(named_struct('a', date'2026-01-02'), map('dateFormat', 'dd.MM.yyyy'))": (
        "02.01.2026"
    ),
    "select trim(to_xml(named_struct('a', 1), map('rowTag', 'x', 'indent', ''))) like"
    " '<x><a>1</a>%'": True,
    "select xpath_int('<a><b>1</b><b>2</b></a>', 'sum(a/b)')": 3,
    "select get_json_object('{\"a\": [1, 2]}', '$.a[1]')": "2",
    "select variant_get(parse_json('{\"a\": {\"b\": 2}}'), '$.a.b', 'int')": 2,
    "select timestampdiff(day, date'2026-01-01', date'2026-02-01')": 31,
    "select timestampadd(month, 1, date'2026-01-31') = timestamp'2026-02-28'": True,
    "select date_format(date_trunc('month', timestamp'2026-02-03 04:05:06'), 'yyyy-MM-dd')": (
        "2026-02-01"
    ),
    "select count(distinct r_name) - approx_count_distinct(r_name) from gold.regions": 0,
    "select percentile_cont(0.5) within group (order by c) from values (1), (3) as t(c)": 2.0,
    "select hll_sketch_estimate(hll_union_agg(s)) from (select hll_sketch_agg(id) as s"
    " from range(3))": 3,
    "select theta_sketch_estimate(theta_sketch_agg(id)) from range(3)": 3,
    "select row_number() over (order by id desc) from range(3) order by id limit 1": 3,
    "select max(total) from (select sum(id) over (order by id rows 1 preceding) as total"
    " from range(4))": 5,
    "select aggregate(sequence(1, 4), 0, (sum, x) -> sum + x)": 10,
    "select array_join(transform(array('b', 'a'), (x, i) -> upper(x) || i), ',')": "B0,A1",
    "select map_filter(map('a', 1, 'b', 2), (k, v) -> v > 1)['b']": 2,
    "select sum(x) from (select explode(array(1, 2)) as x)": 3,
    "select sum(col) from explode(array(1, 2))": 3,
    "select count(*) from stack(2, 1, 2)": 2,
    "select x from (select 'a,b' as s) lateral view posexplode(split(s, ',')) as i, x"
    " where i = 1": "b",
    "select * from (select 'a' as k, 1 as v) pivot (sum(v) for k in ('a'))": 1,
    "select count(*) from (select 1 as a, 2 as b) unpivot (v for k in (a, b))": 2,
    "select listagg(r_name, ',') within group (order by r_name) like 'AFRICA,%' from"
    " gold.regions": True,
    "select regexp_extract('2026-01', '(\\\\d+)-', 1)": "2026",
    "select count(*) from gold.regions tablesample (100 percent)": 7,
    "select /*+ broadcast(b) */ count(*) from gold.regions a join gold.regions b using"
    " (r_regionkey)": 7,
    "with recursive n as (select 1 as i union all select i + 1 from n where i < 5)"
    " select max(i) from n": 5,
    "select identifier('upper')('a')": "A",
    "select identifier('count')(1)": 1,
    "select identifier('co' || 'unt')(distinct r_name) from gold.regions": 7,
    "select identifier('count')(1) filter (where r_regionkey > 2) from gold.regions": 4,
    "select identifier('max')(1) filter (where exists(select * from gold.regions))": 1,
    "select identifier('percentile_cont')(0.5) within group (order by c) from values (1), (3) as"
    " t(c)": 2.0,
    "select identifier('row_number')() over (order by r_name) from gold.regions limit 1": 1,
    "select identifier('mask')(str => 'AbC', upperChar => 'Y')": "YxY",
    "select identifier('lake.system.bucket')(1, 5)": 0,
    "select identifier('r_' || 'name') from gold.regions order by 1 limit 1": "AFRICA",
    # Comments of columns are left.
    'select from_json(\'{"x": 1}\', \'{"type": "struct", "fields": [{"name": "x",'
    ' "type": "integer", "nullable": true, "metadata": {"comment": "x"}}]}\').x': 1,
    "select `lower`('A')": "a",
    "select lake.system.bucket(1, 5)": 0,
    "select input_file_name() like '%.parquet' from gold.regions limit 1": True,
    "select version() like '4.%'": True,
    "select current_catalog()": "lake",
    "select aes_decrypt(aes_encrypt('a', '0123456789abcdef'), '0123456789abcdef')::string": "a",
    "select try_divide(1, 0)": None,
    "select parse_url('https://example.org/a?b=c', 'QUERY', 'b')": "c",
    "select count(*) > 0 from gold.orders.snapshots": True,
}
