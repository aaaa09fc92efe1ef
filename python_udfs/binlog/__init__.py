"""Plain row changes from readers of MySQL's binlog: Maxwell, Canal, and others like them."""
