"""What documents are made with: pictures of a terminal and of the report, a notebook."""
