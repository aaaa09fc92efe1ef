"""Plain changes of rows, from what reads MySQL's binlog: Maxwell, Canal, and others like them."""
