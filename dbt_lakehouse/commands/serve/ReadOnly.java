import java.lang.reflect.Field;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.function.Consumer;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.ExpressionWithUnresolvedIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.CatalogManager;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.execution.command.SetCommand;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.StructType;
import scala.Enumeration;
import scala.Function0;
import scala.Function1;
import scala.Function2;
import scala.Function3;
import scala.Option;
import scala.Product;
import scala.Tuple2;
import scala.collection.Iterable;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction2;

/**
 * Gives sessions a parser that refuses all statements but those that read. Spark has each statement
 * parsed first, and analyses, which may run a procedure, nothing that its parser has refused.
 */
public final class ReadOnly extends AbstractFunction2 {
    private final Set plans;
    private final Set settings;
    private final Consumer functions;
    private final String catalog;
    private final CatalogPlugin lake;
    private final String schema;

    /**
     * What may be in a statement: plans, by the names of their classes, and settings. `functions`
     * leaves a registry of functions what may be called. All sessions share the lake's catalog, for
     * Spark closes none; `schema` is where they look for tables.
     */
    public ReadOnly(
            Set plans,
            Set settings,
            Consumer functions,
            String catalog,
            CatalogPlugin lake,
            String schema) {
        this.plans = plans;
        this.settings = settings;
        this.functions = functions;
        this.catalog = catalog;
        this.lake = lake;
        this.schema = schema;
    }

    public Object apply(Object session, Object parser) {
        return new Parser((SparkSession) session, (ParserInterface) parser);
    }

    private LogicalPlan checked(Object plan) {
        check(plan);
        return (LogicalPlan) plan;
    }

    /**
     * All that a plan is made of: plans lie in lists, options and expressions too. What can't be
     * looked into may hold one, and is refused.
     */
    public void check(Object part) {
        check(part, Collections.newSetFromMap(new IdentityHashMap()));
    }

    /** `seen` are the nodes that were looked into. */
    private void check(Object part, Set seen) {
        if (part instanceof TreeNode && !seen.add(part)) {
            return;
        }
        if (part instanceof LogicalPlan) {
            checkPlan((LogicalPlan) part);
        }
        if (part instanceof Map) {
            if (!((Map) part).isEmpty()) {
                throw refused(
                    "a table has no options here, and not " + ((Map) part).keySet(),
                    "`version as of` and `timestamp as of` read it as it was");
            }
        } else if (part instanceof ExpressionWithUnresolvedIdentifier) {
            ExpressionWithUnresolvedIdentifier late = (ExpressionWithUnresolvedIdentifier) part;
            check(late.identifierExpr(), seen);
            check(late.otherExprs(), seen);
            // Spark has this made when it knows the name, and no parser looks at it again.
            Object name = Nil$.MODULE$.$colon$colon("x");
            check(late.exprBuilder().apply(name, late.otherExprs()), seen);
        } else if (part instanceof Iterable) {
            // Before functions: Scala's lists and maps are some.
            checkEach(((Iterable) part).iterator(), seen);
        } else if (isLookedInto(part)) {
            checkEach(((Product) part).productIterator(), seen);
            if (part instanceof TreeNode) {
                checkEach(((TreeNode) part).children().iterator(), seen);
                checkEach(((TreeNode) part).innerChildren().iterator(), seen);
            }
        } else if (part != lake && !isPlain(part)) {
            throw refused(
                "only queries are answered here, and in this one is " + part.getClass().getName(),
                "it can't be looked into");
        }
    }

    private void checkEach(Iterator parts, Set seen) {
        while (parts.hasNext()) {
            check(parts.next(), seen);
        }
    }

    private static boolean isLookedInto(Object part) {
        if (!(part instanceof Product) || part instanceof Literal || part instanceof DataType
            || part instanceof Function0 || part instanceof Function1
            || part instanceof Function2 || part instanceof Function3) {
            return false;
        }
        String name = part.getClass().getName();
        return name.startsWith("org.apache.spark.") || name.startsWith("scala.");
    }

    /** What holds no plan: texts, numbers, types, values and the like. */
    private static boolean isPlain(Object part) {
        return part == null || part instanceof Literal || part instanceof DataType
            || part instanceof String || part instanceof Number || part instanceof Boolean
            || part instanceof Character || part instanceof Enum
            || part instanceof Enumeration.Value || part instanceof byte[]
            || part instanceof UUID || part instanceof Metadata || part instanceof InternalRow
            || part.getClass().getName().startsWith("org.apache.spark.unsafe.types.");
    }

    private void checkPlan(LogicalPlan plan) {
        // The class: some nodes call themselves "Except All". Scala's objects have a $ behind theirs.
        String name = plan.getClass().getSimpleName().replace("$", "");
        if (!plans.contains(name) || !plan.getClass().getName().startsWith("org.apache.spark.")) {
            throw refused(
                "only queries are answered here, and this is " + name,
                "the lake's tables are written by `dbt run`");
        }
        if (plan instanceof SetCommand) {
            Option pair = ((SetCommand) plan).kv();
            if (pair.isEmpty() || !settings.contains(((Tuple2) pair.get())._1())) {
                throw refused(
                    "settings can't be read or changed here, but " + settings,
                    "the others are those of the server's profile");
            }
        }
        if (name.startsWith("Unresolved") && ((Product) plan).productArity() > 0) {
            checkName(((Product) plan).productElement(0));
        }
    }

    /** The name of a table or schema: files, and what stands for the lake's tables, are none. */
    private void checkName(Object parts) {
        if (!(parts instanceof scala.collection.Seq)) {
            return;
        }
        Iterator each = ((scala.collection.Seq) parts).iterator();
        while (each.hasNext()) {
            String part = String.valueOf(each.next());
            if (part.indexOf('/') >= 0 || part.equalsIgnoreCase("spark_catalog")) {
                throw refused(
                    "a query reads tables of the lake alone, and not " + part,
                    "files and other catalogs are the server's own");
            }
        }
    }

    private static UnsupportedOperationException refused(String what, String reason) {
        return new UnsupportedOperationException(what + ": " + reason);
    }

    private final class Parser implements ParserInterface {
        private final SparkSession session;
        private final ParserInterface parser;
        private boolean isNew = true;

        Parser(SparkSession session, ParserInterface parser) {
            this.session = session;
            this.parser = parser;
        }

        public LogicalPlan parsePlan(String sql) throws ParseException {
            return checked(parser.parsePlan(begin(sql)));
        }

        public LogicalPlan parsePlanWithParameters(String sql, ParameterContext values)
                throws ParseException {
            return checked(parser.parsePlanWithParameters(begin(sql), values));
        }

        public LogicalPlan parseQuery(String sql) throws ParseException {
            return checked(parser.parseQuery(sql));
        }

        /** Clients that name no schema ask for Hive's, which no lake has. */
        private synchronized String begin(String sql) {
            if (isNew) {
                SessionState state = session.sessionState();
                share(state.catalogManager());
                forgetOthers(state.conf());
                functions.accept(state.functionRegistry());
                functions.accept(state.tableFunctionRegistry());
                isNew = false;
            }
            return sql.trim().replace("`", "").equalsIgnoreCase("use default")
                ? "use `" + schema + "`"
                : sql;
        }

        private void share(CatalogManager manager) {
            try {
                Field catalogs = CatalogManager.class.getDeclaredField("catalogs");
                catalogs.setAccessible(true);
                ((scala.collection.mutable.HashMap) catalogs.get(manager)).put(catalog, lake);
            } catch (ReflectiveOperationException error) {
                throw new IllegalStateException(error);
            }
        }

        /** Catalogs that the profile names beside the lake's are the server's own. */
        private void forgetOthers(SQLConf conf) {
            Iterator names = conf.getAllConfs().keysIterator();
            while (names.hasNext()) {
                String name = (String) names.next();
                if (name.startsWith("spark.sql.catalog.")
                    && !name.startsWith("spark.sql.catalog." + catalog + ".")) {
                    conf.unsetConf(name);
                }
            }
        }

        /** Queries may be in it. */
        public Expression parseExpression(String sql) throws ParseException {
            Expression expression = parser.parseExpression(sql);
            check(expression);
            return expression;
        }

        public TableIdentifier parseTableIdentifier(String sql) throws ParseException {
            TableIdentifier name = parser.parseTableIdentifier(sql);
            checkName(name.nameParts());
            return name;
        }

        public FunctionIdentifier parseFunctionIdentifier(String sql) throws ParseException {
            return parser.parseFunctionIdentifier(sql);
        }

        public Seq parseMultipartIdentifier(String sql) throws ParseException {
            Seq name = parser.parseMultipartIdentifier(sql);
            checkName(name);
            return name;
        }

        public StructType parseRoutineParam(String sql) throws ParseException {
            return parser.parseRoutineParam(sql);
        }

        public StructType parseTableSchema(String sql) throws ParseException {
            return parser.parseTableSchema(sql);
        }

        public DataType parseDataType(String sql) throws ParseException {
            return parser.parseDataType(sql);
        }
    }
}
