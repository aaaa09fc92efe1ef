{{ current_state(ref("carts_changes")) }}
