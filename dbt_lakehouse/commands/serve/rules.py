"""What a client may ask: the plans, by the names of Spark's classes, that a parsed statement may be
made of, subqueries and all.

What is not listed is refused, so a plan that a later Spark brings is until somebody has looked at
it. ``TRANSFORM``, which runs programs, is a query too, and ``CALL`` of a procedure is run while
Spark still analyses it.
"""

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
# USE of a schema, and SET of what is listed below. They are of the client's own session.
_CHOOSING: Final = "SetCatalogAndNamespace SetCommand SetNamespaceCommand"

PLANS: Final = tuple(f"{_READING} {_TELLING} {_CHOOSING}".split())
SETTINGS: Final = ("spark.sql.session.timeZone",)

# They call any method of any Java class.
FUNCTIONS_REFUSED: Final = ("java_method", "reflect", "try_reflect")
