{{ current_state(ref("devices_changes")) }}
