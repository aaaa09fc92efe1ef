"""The demo's topics, one module for each product and format that sends them."""
