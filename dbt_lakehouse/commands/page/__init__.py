"""`lakehouse page`: the state of a lake, and queries to it, as a local web page."""
