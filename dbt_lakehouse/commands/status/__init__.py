"""`lakehouse status`: what has become of all that has landed, and whether the sums agree."""
