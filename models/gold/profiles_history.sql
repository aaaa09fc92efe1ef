{{ config(contract={"enforced": false}) }}

{{ history(ref("profiles_changes"), track_columns=["email", "display_name", "is_vip", "home"]) }}
