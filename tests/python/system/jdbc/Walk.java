import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.ResultSetMetaData;
import java.sql.SQLException;
import java.sql.Statement;
import java.sql.Timestamp;
import java.sql.Types;
import java.util.Arrays;
import java.util.StringJoiner;

/** What tools ask of a server by JDBC, and the answers, a line each: `walk.txt` has them. */
public class Walk {
    private static final String ENDLESS =
        "select count(*) from range(100000000000000) a cross join range(100000) b";

    public static void main(String[] arguments) throws Exception {
        String address = arguments[0];
        String user = arguments[1];
        String password = arguments[2];
        System.setOut(new java.io.PrintStream(System.out, true, StandardCharsets.UTF_8));
        DriverManager.setLoginTimeout(60);
        try (Connection connection = DriverManager.getConnection(address, user, password)) {
            lists(connection.getMetaData());
            session(connection);
            values(connection);
            statements(connection);
            stops(connection);
            said(connection);
        }
        gone(DriverManager.getConnection(address, user, password));
    }

    private static void lists(DatabaseMetaData data) throws SQLException {
        say("product", data.getDatabaseProductName());
        say("catalogs", rows(data.getCatalogs(), "TABLE_CAT"));
        say("schemas", rows(data.getSchemas(null, "g_l%"), "TABLE_SCHEM"));
        say("table types", rows(data.getTableTypes(), "TABLE_TYPE"));
        Object[] table = {"TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"};
        say("tables", rows(data.getTables(null, null, null, null), table));
        String[] tables = {"TABLE"};
        say("by type", rows(data.getTables(null, "gold", "ord%", tables), "TABLE_NAME", "REMARKS"));
        say("one", rows(data.getTables("", "GOLD", "orders\\_history", tables), "TABLE_NAME"));
        say("views", rows(data.getTables(null, "%", "%", new String[] {"VIEW"}), table));
        say("others", rows(data.getTables(null, "silver", "%", null), table));
        ResultSet columns = data.getColumns(null, "gold", "orders", null);
        Object[] column = {"ORDINAL_POSITION", "COLUMN_NAME", "DATA_TYPE", "TYPE_NAME"};
        say("columns", rows(columns, column));
        columns = data.getColumns(null, "gold", "orders", "amount");
        Object[] more = {"DECIMAL_DIGITS", "NUM_PREC_RADIX", "NULLABLE", "IS_NULLABLE", "REMARKS"};
        say("column", rows(columns, more));
        say("types", rows(data.getTypeInfo(), "TYPE_NAME", "DATA_TYPE"));
        say("functions", rows(data.getFunctions(null, null, "decode%"), "FUNCTION_SCHEM", "FUNCTION_NAME"));
        say("indexes", rows(data.getIndexInfo(null, "gold", "orders", false, true), "INDEX_NAME"));
        say("keys", rows(data.getPrimaryKeys(null, "gold", "orders"), "COLUMN_NAME", "KEY_SEQ"));
        say("imported", rows(data.getImportedKeys(null, "gold", "orders"), "PKTABLE_NAME"));
        ResultSet references =
            data.getCrossReference(null, "gold", "orders", null, "gold", "customers");
        say("references", rows(references, "PKCOLUMN_NAME", "FKCOLUMN_NAME"));
    }

    private static void session(Connection connection) throws SQLException {
        say("valid", connection.isValid(9));
        say("schema", connection.getSchema());
        connection.setSchema("silver");
        say("set", connection.getSchema());
        // Hive's own, which no lake has.
        connection.setSchema("default");
        say("default", connection.getSchema());
        say("unknown", refusal(() -> connection.setSchema("nowhere")));
    }

    private static void values(Connection connection) throws SQLException {
        try (Statement statement = connection.createStatement()) {
            ResultSet row = statement.executeQuery(
                "select 1Y as b, 2S as s, 3 as i, 4L as l, float(1.5) as f, 2.5D as d, true as t,"
                    + " cast(0.1 as decimal(38, 18)) as n, 'ü\\'' as c, date'0001-01-01' as day,"
                    + " timestamp'2026-11-21 12:34:56.123456' as at, x'00ff' as x, array(1, null)"
                    + " as a, map('k', 1) as m, named_struct('y', 2) as r, cast(null as int) as o");
            say("labels", labels(row.getMetaData()));
            row.next();
            say("numbers", row.getByte("b") + " " + row.getShort("s") + " " + row.getInt("i") + " "
                + row.getLong("l") + " " + row.getFloat("f") + " " + row.getDouble("d") + " "
                + row.getBigDecimal("n") + " " + row.getBoolean("t"));
            say("times", row.getDate("day") + " " + row.getTimestamp("at"));
            say("bytes", Arrays.toString((byte[]) row.getObject("x")));
            say("texts", row.getString("c") + " " + row.getString("a") + " " + row.getString("m")
                + " " + row.getString("r"));
            say("null", row.getInt("o") + " " + row.wasNull());
        }
        try (PreparedStatement prepared = connection.prepareStatement(
                "select ?, ?, ?, ?, ?, ?, 'a?', order_id from orders where status = ? and"
                    + " order_id > ? order by order_id")) {
            prepared.setString(1, "it's \"東\" ? -- ;");
            prepared.setLong(2, 1L << 40);
            prepared.setBigDecimal(3, new BigDecimal("12.340"));
            prepared.setDate(4, Date.valueOf("2026-10-05"));
            prepared.setTimestamp(5, Timestamp.valueOf("2026-10-05 01:02:03.456789"));
            prepared.setNull(6, Types.VARCHAR);
            prepared.setString(7, "paid");
            prepared.setInt(8, 5005);
            prepared.setMaxRows(1);
            say("prepared", rows(prepared.executeQuery(), 1, 2, 3, 4, 5, 6, 7, 8));
            prepared.setString(7, "x' or '1' = '1");
            say("injected", rows(prepared.executeQuery(), 8));
        }
    }

    private static void statements(Connection connection) throws SQLException {
        try (Statement one = connection.createStatement();
                Statement other = connection.createStatement()) {
            one.setFetchSize(7);
            ResultSet first = one.executeQuery("select id from range(100)");
            ResultSet second = other.executeQuery("select id from range(3000)");
            long both = 0;
            while (first.next() && second.next()) {
                both += first.getLong(1) == second.getLong(1) ? 1 : 0;
            }
            say("at once", both);
            one.setMaxRows(2);
            say("most", rows(one.executeQuery("select id from range(100)"), 1));
            say("none", rows(one.executeQuery("select * from orders where 1 = 0"), "amount"));
        }
    }

    private static void stops(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            statement.setQueryTimeout(1);
            say("too long", refusal(() -> statement.executeQuery(ENDLESS)));
            statement.setQueryTimeout(0);
            Thread canceller = new Thread(() -> {
                try {
                    Thread.sleep(500);
                    statement.cancel();
                } catch (InterruptedException | SQLException error) {
                    throw new IllegalStateException(error);
                }
            });
            canceller.start();
            say("cancelled", refusal(() -> statement.executeQuery(ENDLESS)));
            canceller.join();
        }
    }

    /** What Tableau, Metabase, DBeaver and Superset send, and refusals. */
    private static void said(Connection connection) throws SQLException {
        for (String statement : new String[] {
            "show schemas",
            "show tables in `gold` like 'orders'",
            "show views in gold",
            "show columns in gold.accounts",
            "show functions like 'decode'",
            "describe gold.regions",
            "use `default`",
            "/* tool */ select current_catalog(), current_schema(), current_user()",
            "-- Metabase:: queryType: MBQL\nselect count(*) as `n` from `gold`.`orders` `t1`",
            "set -v",
            "set hive.execution.engine=spark",
            "create temporary view `Tableau_1` as select 1 as x",
            "drop table if exists orders",
            "selekt 1",
            "select nothing from nowhere",
        }) {
            try (Statement sent = connection.createStatement()) {
                say(statement.replace('\n', ' '), refusalOrRows(sent, statement));
            }
        }
        for (String statement : new String[] {
            "show create table gold.orders",
            "describe formatted orders",
            "describe table extended gold.orders",
            "show table extended in gold like 'orders'",
            "show tblproperties orders",
            "show catalogs",
            "explain select 1",
        }) {
            try (Statement sent = connection.createStatement()) {
                say(statement, sent.executeQuery(statement).next());
            }
        }
    }

    /** A connection that is closed while it waits for an answer. */
    private static void gone(Connection connection) throws Exception {
        Statement statement = connection.createStatement();
        Thread closer = new Thread(() -> {
            try {
                Thread.sleep(500);
                connection.close();
            } catch (InterruptedException | SQLException error) {
                throw new IllegalStateException(error);
            }
        });
        closer.start();
        refusal(() -> statement.executeQuery(ENDLESS));
        closer.join();
        say("closed", connection.isClosed());
    }

    private interface Call {
        void run() throws SQLException;
    }

    /** The first line of what a call that fails is told. */
    private static String refusal(Call call) {
        try {
            call.run();
        } catch (SQLException error) {
            return error.getMessage().split("\n")[0];
        }
        return "";
    }

    private static String refusalOrRows(Statement statement, String sql) {
        String[] answer = {""};
        String refusal = refusal(() -> answer[0] = rows(statement.executeQuery(sql)));
        return answer[0] + refusal;
    }

    private static String labels(ResultSetMetaData data) throws SQLException {
        StringJoiner labels = new StringJoiner("; ");
        for (int i = 1; i <= data.getColumnCount(); i++) {
            labels.add(data.getColumnLabel(i) + " " + data.getColumnTypeName(i) + " "
                + data.getColumnType(i) + " " + data.getScale(i));
        }
        return labels.toString();
    }

    /** Some columns of all rows, by name or number; none named: all. */
    private static String rows(ResultSet rows, Object... columns) throws SQLException {
        StringJoiner joined = new StringJoiner("; ");
        int count = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            StringJoiner row = new StringJoiner("|");
            for (int i = 0; i < (columns.length == 0 ? count : columns.length); i++) {
                int number = columns.length == 0 ? i + 1 : columns[i] instanceof Integer
                    ? (Integer) columns[i] : rows.findColumn((String) columns[i]);
                row.add(String.valueOf(rows.getObject(number)));
            }
            joined.add(row.toString());
        }
        rows.close();
        return joined.toString();
    }

    private static void say(String what, Object answer) {
        System.out.println(what + ": " + answer);
    }
}
