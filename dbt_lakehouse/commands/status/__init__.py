"""`lakehouse status`: the state of everything that has landed, and whether the sums agree."""
