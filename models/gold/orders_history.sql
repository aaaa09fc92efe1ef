{{ config(contract={"enforced": false}) }}

{{ history(ref("orders_changes")) }}
