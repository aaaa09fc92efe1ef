{{ current_state(ref("invoices_changes")) }}
