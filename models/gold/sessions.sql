{{ current_state(ref("sessions_changes")) }}
