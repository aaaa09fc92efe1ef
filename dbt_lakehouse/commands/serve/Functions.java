import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.analysis.FunctionRegistryBase;
import org.apache.spark.sql.catalyst.expressions.ExpressionInfo;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Product;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/**
 * Leaves a registry of functions those that are listed, and their options and schemas likewise. Whatever names a
 * function, a statement, a view or a message, Spark looks it up in a registry and has it make an
 * expression, before it could evaluate that one: this is where it is refused.
 */
public final class Functions implements Consumer {
    private final Set functions;
    private final Map refusedFunctions;
    private final Set options;
    private final Map refusedOptions;
    private final Set metadata;

    /**
     * What may be called, by name; `options` in lower case. The maps say why others may not.
     * `metadata` are the keys of what columns of schemas may bring.
     */
    public Functions(
            Set functions,
            Map refusedFunctions,
            Set options,
            Map refusedOptions,
            Set metadata) {
        this.functions = functions;
        this.refusedFunctions = refusedFunctions;
        this.options = options;
        this.refusedOptions = refusedOptions;
        this.metadata = metadata;
    }

    public void accept(Object registry) {
        FunctionRegistryBase known = (FunctionRegistryBase) registry;
        Iterator names = known.listFunction().iterator();
        while (names.hasNext()) {
            FunctionIdentifier name = (FunctionIdentifier) names.next();
            ExpressionInfo information = (ExpressionInfo) known.lookupFunction(name).get();
            Function1 builder = (Function1) known.lookupFunctionBuilder(name).get();
            if (builder instanceof Builder) {
                // Registries of sessions are copies.
                continue;
            }
            // Spark warns of one that takes another's place.
            known.dropFunction(name);
            known.registerFunction(name, information, new Builder(name.unquotedString(), builder));
        }
    }

    private void checkParts(String function, Object expression) {
        if (!(expression instanceof Product)) {
            return;
        }
        Iterator parts = ((Product) expression).productIterator();
        while (parts.hasNext()) {
            Object part = parts.next();
            if (part instanceof DataType) {
                checkType(function, (DataType) part);
            } else if (part instanceof scala.collection.Map) {
                Iterator keys = ((scala.collection.Map) part).keysIterator();
                while (keys.hasNext()) {
                    checkOption(function, String.valueOf(keys.next()).toLowerCase(Locale.ROOT));
                }
            }
        }
    }

    private void checkOption(String function, String option) {
        if (!options.contains(option)) {
            Object reason = refusedOptions.get(option);
            throw new UnsupportedOperationException(
                "only options that name no file, address or class are taken here, and not "
                    + option + " of " + function + ": "
                    + (reason == null ? "it is not in this server's list" : reason));
        }
    }

    /**
     * A schema as JSON can bring what a column has beside its type: a default value is SQL, which
     * Spark parses, analyses and computes with a parser and functions of its own.
     */
    private void checkType(String function, DataType type) {
        if (type instanceof StructType) {
            StructField[] columns = ((StructType) type).fields();
            for (int i = 0; i < columns.length; i++) {
                Iterator keys = columns[i].metadata().map().keysIterator();
                while (keys.hasNext()) {
                    String key = String.valueOf(keys.next());
                    if (!metadata.contains(key)) {
                        throw new UnsupportedOperationException(
                            "a column of a schema has no " + key + " here, and not in " + function
                                + ": it may be SQL that nobody has looked at");
                    }
                }
                checkType(function, columns[i].dataType());
            }
        } else if (type instanceof ArrayType) {
            checkType(function, ((ArrayType) type).elementType());
        } else if (type instanceof MapType) {
            checkType(function, ((MapType) type).keyType());
            checkType(function, ((MapType) type).valueType());
        }
    }

    /** Makes an expression, or a plan, of a function's arguments. */
    private final class Builder extends AbstractFunction1 {
        private final String name;
        private final Function1 builder;

        Builder(String name, Function1 builder) {
            this.name = name;
            this.builder = builder;
        }

        public Object apply(Object arguments) {
            if (!functions.contains(name)) {
                Object reason = refusedFunctions.get(name);
                throw new UnsupportedOperationException(
                    "only functions that reach nothing but their arguments are called here, and not "
                        + name + ": "
                        + (reason == null ? "it is not in this server's list" : reason));
            }
            Object made = builder.apply(arguments);
            checkParts(name, made);
            return made;
        }
    }
}
