{{ current_state(ref("contacts_changes")) }}
