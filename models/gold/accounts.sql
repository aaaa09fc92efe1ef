{{ current_state(ref("accounts_changes")) }}
