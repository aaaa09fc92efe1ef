{#
  The distinct keys whose known states are looked up.

  Arguments:
      keys: SQL of the keys.
      may_repeat: whether a key may occur more than once among them.
#}
select {{ 'distinct ' if may_repeat }}*
from (
    {{ keys | indent }}
)
