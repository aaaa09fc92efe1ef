import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.Set;
import org.apache.spark.sql.catalyst.analysis.LocalTempView$;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.CatalogPlugin;
import org.apache.spark.sql.execution.command.CreateViewCommand;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.Option;
import scala.Product;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;
import scala.runtime.BoxedUnit;

/**
 * Has sessions look once more at what they are about to plan or execute, after it was analysed:
 * whatever the parser did not see, and whichever way it came, it is a query of the lake's tables.
 */
public final class Analyzed extends AbstractFunction1 {
    private final Set plans;
    private final CatalogPlugin lake;

    /** The plans by the names of their classes, and the catalog that all sessions share. */
    public Analyzed(Set plans, CatalogPlugin lake) {
        this.plans = plans;
        this.lake = lake;
    }

    public Object apply(Object session) {
        return new Check();
    }

    private void check(LogicalPlan plan, Set seen) {
        if (!seen.add(plan)) {
            return;
        }
        String kind = plan.getClass().getSimpleName().replace("$", "");
        if (!plans.contains(kind) || !plan.getClass().getName().startsWith("org.apache.spark.")) {
            throw refused("only queries are answered here, and this is " + kind);
        }
        if (plan instanceof CreateViewCommand
            && ((CreateViewCommand) plan).viewType() != LocalTempView$.MODULE$) {
            throw refused("only queries are answered here, and this makes a view");
        }
        if (plan instanceof DataSourceV2Relation) {
            Option catalog = ((DataSourceV2Relation) plan).catalog();
            if (catalog.isEmpty() || catalog.get() != lake) {
                throw refused("a query reads tables of the lake alone, and this is another");
            }
        }
        Iterator parts = ((Product) plan).productIterator();
        while (parts.hasNext()) {
            checkCatalog(parts.next());
        }
        checkEach(plan.children().iterator(), seen);
        checkEach(plan.innerChildren().iterator(), seen);
        checkEach(plan.subqueries().iterator(), seen);
    }

    private void checkEach(Iterator nodes, Set seen) {
        while (nodes.hasNext()) {
            Object node = nodes.next();
            if (node instanceof LogicalPlan) {
                check((LogicalPlan) node, seen);
            }
        }
    }

    /** A catalog is the lake's, or the one of which the tables that are listed are told. */
    private void checkCatalog(Object part) {
        if (part instanceof Option && ((Option) part).isDefined()) {
            part = ((Option) part).get();
        }
        if (part instanceof CatalogPlugin && part != lake
            && !((CatalogPlugin) part).name().equals("spark_catalog")) {
            throw refused("a query reads tables of the lake alone, and not of "
                + ((CatalogPlugin) part).name());
        }
    }

    private static UnsupportedOperationException refused(String what) {
        return new UnsupportedOperationException(
            what + ": this is looked at once more when all names are known");
    }

    private final class Check extends AbstractFunction1 {
        public Object apply(Object plan) {
            check((LogicalPlan) plan, Collections.newSetFromMap(new IdentityHashMap()));
            return BoxedUnit.UNIT;
        }
    }
}
