{{ current_state(ref("profiles_changes")) }}
