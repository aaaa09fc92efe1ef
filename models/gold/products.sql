{{ current_state(ref("products_changes")) }}
