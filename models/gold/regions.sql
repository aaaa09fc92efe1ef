{{ current_state(ref("regions_changes")) }}
