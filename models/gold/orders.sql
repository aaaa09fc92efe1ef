{{ current_state(ref("orders_changes")) }}
