{{ config(materialized="history", contract={"enforced": false}) }}

{{ history(ref("orders_changes")) }}
