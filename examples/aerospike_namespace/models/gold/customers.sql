{{ current_state(ref("customers_changes")) }}
