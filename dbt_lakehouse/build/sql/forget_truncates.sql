{# Forgets the truncates of a table in `deleted_keys`. #}
delete from {{ deleted_keys }}
where scope = {{ scope | literal }}
