{# Remove the truncates of a table from `deleted_keys`. #}
delete from {{ deleted_keys }}
where scope = {{ scope | literal }}
