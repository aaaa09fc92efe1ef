"""The allow-list of plans for clients, by the names of Spark's classes: a parsed statement,
subqueries included, may consist only of these.

A plan that is not listed is refused, so a new plan in a later Spark is refused until it has been
reviewed. ``TRANSFORM``, which runs programs, is also a query, and ``CALL`` of a procedure runs
while Spark still analyses it.
"""

from collections.abc import Iterator
from typing import Final

_READING: Final = """
    AsOfJoin Aggregate CTERelationDef CTERelationRef CurrentNamespace DataFrameDropColumns
    Deduplicate Distinct Except Expand Filter Generate GlobalLimit Intersect Join LateralJoin
    LimitAll LocalLimit LocalRelation Offset OneRowRelation PipeOperator Pivot Project Range
    RebalancePartitions RelationTimeTravel Repartition RepartitionByExpression
    ResolvedInlineTable ResolvedNamespace Sample Sort Subquery SubqueryAlias Tail Transpose
    Union UnionLoop UnionLoopRef Unpivot UnresolvedFunctionName UnresolvedHaving UnresolvedHint
    UnresolvedInlineTable UnresolvedNamespace UnresolvedRelation UnresolvedSubqueryColumnAliases
    UnresolvedTVFAliases UnresolvedTable UnresolvedTableOrView UnresolvedTableValuedFunction
    UnresolvedTranspose UnresolvedView UnresolvedWith View Window WithCTE WithWindowDefinition
"""
_TELLING: Final = """
    DescribeColumn DescribeFunction DescribeNamespace DescribeQueryCommand DescribeRelation
    ExplainCommand ShowCatalogsCommand ShowColumns ShowCreateTable ShowCurrentNamespaceCommand
    ShowFunctions ShowNamespacesCommand ShowNamespaces ShowPartitions ShowTableProperties
    ShowIcebergViews ShowTables ShowTablesExtended ShowViews
"""
# USE of a schema, and SET of the settings listed below. They affect only the client's own
# session.
_CHOOSING: Final = "SetCatalogAndNamespace SetCommand SetNamespaceCommand"

PLANS: Final = tuple(f"{_READING} {_TELLING} {_CHOOSING}".split())
"""The plans of a parsed statement."""

# Plans that Spark makes of them, or of the DataFrame API: for frames that a text of SQL names, it
# makes views in the session while it reads the text.
_RESOLVED: Final = """
    CommandResult CreateViewCommand DataSourceV2Relation DescribeFunctionCommand
    DeserializeToObject ResolvedHint ResolvedIdentifier ResolvedNonPersistentFunc
    ResolvedPersistentFunc ResolvedPersistentView ResolvedTable ResolvedTempView ResolvedV2View
    ShowFunctionsCommand ShowTablesCommand
"""
PLANS_ANALYZED: Final = (
    *(each for each in PLANS if not each.startswith("Unresolved")),
    *_RESOLVED.split(),
)
"""The plans of an analysed query, by whichever way it came: Spark checks once more before it
plans or executes it.
"""
SETTINGS: Final = ("spark.sql.session.timeZone",)

# The messages of Spark Connect clients and their fields: queries and their parts. Not listed, and
# so refused: functions, jars, files, data and serialized objects from the client; data sources;
# commands other than SQL; extensions; compressed plans.
_CONNECT: Final = """
    ExecutePlanRequest: session_id client_observed_server_side_session_id user_context operation_id
        plan client_type request_options tags
    AnalyzePlanRequest: session_id client_observed_server_side_session_id user_context client_type
        schema explain tree_string is_local is_streaming spark_version ddl_parse same_semantics
        semantic_hash
    ConfigRequest: session_id client_observed_server_side_session_id user_context operation
        client_type
    InterruptRequest: session_id client_observed_server_side_session_id user_context client_type
        interrupt_type operation_tag operation_id
    ReattachExecuteRequest: session_id client_observed_server_side_session_id user_context
        operation_id client_type last_response_id
    ReleaseExecuteRequest: session_id client_observed_server_side_session_id user_context
        operation_id client_type release_all release_until
    ReleaseSessionRequest: session_id user_context client_type allow_reconnect
    FetchErrorDetailsRequest: session_id client_observed_server_side_session_id user_context
        error_id client_type
    ExecutePlanRequest.RequestOption: reattach_options result_chunking_options
    ReattachOptions: reattachable
    ResultChunkingOptions: allow_arrow_batch_chunking preferred_arrow_chunk_size
    ReleaseExecuteRequest.ReleaseUntil: response_id
    UserContext: user_id user_name
    AnalyzePlanRequest.Schema: plan
    AnalyzePlanRequest.Explain: plan explain_mode
    AnalyzePlanRequest.TreeString: plan level
    AnalyzePlanRequest.IsLocal: plan
    AnalyzePlanRequest.IsStreaming: plan
    AnalyzePlanRequest.DDLParse: ddl_string
    AnalyzePlanRequest.SameSemantics: target_plan other_plan
    AnalyzePlanRequest.SemanticHash: plan
    ConfigRequest.Operation: set get get_with_default get_option
    ConfigRequest.Set: pairs silent
    ConfigRequest.Get: keys
    ConfigRequest.GetWithDefault: pairs
    ConfigRequest.GetOption: keys
    KeyValue: key value

    Plan: root command
    Command: sql_command
    SqlCommand: sql args pos_args named_arguments pos_arguments input
    SQL: query args pos_args named_arguments pos_arguments
    Relation: common read project filter join set_op sort limit aggregate sql local_relation sample
        offset deduplicate range subquery_alias repartition to_df with_columns_renamed show_string
        drop tail with_columns hint unpivot to_schema repartition_by_expression html_string
        as_of_join with_relations unresolved_table_valued_function lateral_join fill_na drop_na
        replace summary describe catalog
    RelationCommon: source_info plan_id origin
    Origin: python_origin jvm_origin
    PythonOrigin: fragment call_site
    JvmOrigin: line start_position start_index stop_index sql_text object_type object_name
        stack_trace
    StackTraceElement: class_loader_name module_name module_version declaring_class method_name
        file_name line_number
    Read: named_table
    Read.NamedTable: unparsed_identifier
    Project: input expressions
    Filter: input condition
    Join: left right join_condition join_type using_columns join_data_type
    Join.JoinDataType: is_left_struct is_right_struct
    SetOperation: left_input right_input set_op_type is_all by_name allow_missing_columns
    Sort: input order is_global
    Limit: input limit
    Aggregate: input group_type grouping_expressions aggregate_expressions pivot grouping_sets
    Aggregate.Pivot: col values
    Aggregate.GroupingSets: grouping_set
    Sample: input lower_bound upper_bound with_replacement seed
    Offset: input offset
    Deduplicate: input column_names all_columns_as_keys within_watermark
    Range: start end step num_partitions
    SubqueryAlias: input alias qualifier
    Repartition: input num_partitions shuffle
    ToDF: input column_names
    WithColumnsRenamed: input rename_columns_map renames
    WithColumnsRenamed.Rename: col_name new_col_name
    ShowString: input num_rows truncate vertical
    HtmlString: input num_rows truncate
    Drop: input columns column_names
    Tail: input limit
    WithColumns: input aliases
    Hint: input name parameters
    Unpivot: input ids values variable_column_name value_column_name
    Unpivot.Values: values
    ToSchema: input schema
    RepartitionByExpression: input partition_exprs num_partitions
    AsOfJoin: left right left_as_of right_as_of join_expr using_columns join_type tolerance
        allow_exact_matches direction
    WithRelations: root references
    UnresolvedTableValuedFunction: function_name arguments
    LateralJoin: left right join_condition join_type
    NAFill: input cols values
    NADrop: input cols min_non_nulls
    NAReplace: input cols replacements
    NAReplace.Replacement: old_value new_value
    StatSummary: input statistics
    StatDescribe: input cols

    Catalog: current_database set_current_database list_databases list_tables list_columns
        get_database get_table database_exists table_exists current_catalog
    SetCurrentDatabase: db_name
    ListDatabases: pattern
    ListTables: db_name pattern
    ListColumns: table_name db_name
    GetDatabase: db_name
    GetTable: table_name db_name
    DatabaseExists: db_name
    TableExists: table_name db_name

    Expression: common literal unresolved_attribute unresolved_function expression_string
        unresolved_star alias cast unresolved_regex sort_order lambda_function window
        unresolved_extract_value update_fields unresolved_named_lambda_variable call_function
        named_argument_expression subquery_expression
    ExpressionCommon: origin
    Expression.UnresolvedAttribute: unparsed_identifier plan_id is_metadata_column
    Expression.UnresolvedFunction: function_name arguments is_distinct is_user_defined_function
        is_internal
    Expression.ExpressionString: expression
    Expression.UnresolvedStar: unparsed_target plan_id
    Expression.Alias: expr name
    Expression.Cast: expr type type_str eval_mode
    Expression.UnresolvedRegex: col_name plan_id
    Expression.SortOrder: child direction null_ordering
    Expression.LambdaFunction: function arguments
    Expression.UnresolvedNamedLambdaVariable: name_parts
    Expression.Window: window_function partition_spec order_spec frame_spec
    Expression.Window.WindowFrame: frame_type lower upper
    Expression.Window.WindowFrame.FrameBoundary: current_row unbounded value
    Expression.UnresolvedExtractValue: child extraction
    Expression.UpdateFields: struct_expression field_name value_expression
    CallFunction: function_name arguments
    NamedArgumentExpression: key value
    SubqueryExpression: plan_id subquery_type table_arg_options in_subquery_values
    SubqueryExpression.TableArgOptions: partition_spec order_spec with_single_partition

    Expression.Literal: null binary boolean byte short integer long float double decimal string date
        timestamp timestamp_ntz calendar_interval year_month_interval day_time_interval array map
        struct specialized_array time data_type
    Expression.Literal.Decimal: value precision scale
    Expression.Literal.CalendarInterval: months days microseconds
    Expression.Literal.Array: element_type elements
    Expression.Literal.Map: key_type value_type keys values
    Expression.Literal.Struct: struct_type elements
    Expression.Literal.SpecializedArray: bools ints longs floats doubles strings
    Expression.Literal.Time: nano precision
    Bools: values
    Ints: values
    Longs: values
    Floats: values
    Doubles: values
    Strings: values
    DataType: null binary boolean byte short integer long float double decimal string char var_char
        date timestamp timestamp_ntz calendar_interval year_month_interval day_time_interval array
        struct map variant unparsed time
    DataType.Decimal: scale precision
    DataType.String: collation
    DataType.Char: length
    DataType.VarChar: length
    DataType.YearMonthInterval: start_field end_field
    DataType.DayTimeInterval: start_field end_field
    DataType.Array: element_type contains_null
    DataType.Struct: fields
    DataType.StructField: name data_type nullable
    DataType.Map: key_type value_type value_contains_null
    DataType.Unparsed: data_type_string
    DataType.Time: precision
"""


def _fields(text: str) -> Iterator[str]:
    message = ""
    for word in text.split():
        if word.endswith(":"):
            message = word.removesuffix(":")
        else:
            yield f"{message}.{word}"


CONNECT_FIELDS: Final = tuple(_fields(_CONNECT))
# Spark evaluates them as it reads the plan: during analysis, where nothing could stop them.
CONNECT_EXECUTED: Final = ("Relation.show_string", "Relation.html_string", "Aggregate.pivot")
# PySpark requests these before anything else, or expects a refusal.
CONNECT_SETTINGS_TOLD: Final = (
    *SETTINGS,
    "spark.connect.session.planCompression.defaultAlgorithm",
    "spark.connect.session.planCompression.threshold",
    "spark.sql.ansi.enabled",
    "spark.sql.connect.serverStacktrace.enabled",
    "spark.sql.execution.arrow.pyspark.selfDestruct.enabled",
    "spark.sql.execution.arrow.useLargeVarTypes",
    "spark.sql.execution.pandas.convertToArrowArraySafely",
    "spark.sql.execution.pandas.inferPandasDictAsMap",
    "spark.sql.execution.pandas.structHandlingMode",
    "spark.sql.execution.pyspark.binaryAsBytes",
    "spark.sql.execution.pythonUDF.arrow.enabled",
    "spark.sql.execution.pythonUDTF.arrow.enabled",
    "spark.sql.pyspark.inferNestedDictAsStruct.enabled",
    "spark.sql.pyspark.jvmStacktrace.enabled",
    "spark.sql.pyspark.legacy.inferArrayTypeFromFirstElement.enabled",
    "spark.sql.pyspark.legacy.inferMapTypeFromFirstPair.enabled",
    "spark.sql.repl.eagerEval.enabled",
    "spark.sql.repl.eagerEval.maxNumRows",
    "spark.sql.repl.eagerEval.truncate",
    "spark.sql.session.localRelationBatchOfChunksSizeBytes",
    "spark.sql.session.localRelationCacheThreshold",
    "spark.sql.session.localRelationChunkSizeBytes",
    "spark.sql.session.localRelationChunkSizeRows",
    "spark.sql.timestampType",
)
