{#
  The keys of a relation.

  Arguments:
      key: the columns.
      relation: the relation.
      condition: a condition that its rows meet, or none.
      may_repeat: whether to give keys that occur more than once only once.
#}
select {{ 'distinct ' if may_repeat }}{{ key | join(', ') }} from {{ relation }}
{% if condition %}
where {{ condition }}
{% endif %}
