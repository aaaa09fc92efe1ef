{#
  A condition that holds for all rows with the positions of some others.

  Arguments:
      places: topic, partition, first and last offset of each of their partitions.
      parent: the struct of the rows' positions, with a dot, or an empty text.
#}
{% for each in places %}
({{ parent }}topic = {{ each.topic | literal }} and {{ parent }}partition = {{ each.partition }}
and {{ parent }}offset between {{ each.first }} and {{ each.last }}){{ ' or' if not loop.last }}
{% endfor %}
