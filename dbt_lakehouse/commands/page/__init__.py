"""`lakehouse page`: how a lake stands, and what one asks of it, as a page of this machine alone."""
