{#
  Fills columns that the running change log has declared since its rows were written: from the
  same change events, into the rows that have something to say of them. All other rows and files
  stay as they are.

  Arguments:
      to_fill: the columns, as follow_schema returns them.
#}
{% macro fill_change_log(to_fill) %}
    {% set declared = config.get('meta').change_log %}
    {% set filled = quoted(to_fill) + ['_changed_columns', '_misfits'] %}
    {% if declared.key or declared.partial %}
        {% do filled.append('_unchanged_columns') %}
    {% endif %}
    {% call statement('fill') %}
        merge into {{ this }} as target
        using ({{ change_log_sql(declared, _events_read_before(declared, to_fill)) }}) as source
        on target._position <=> source._position
        when matched and {{ columns_differ(filled) }} then update set
            {%- for column in filled %}
            {{ column }} = source.{{ column }}{{ ',' if not loop.last }}
            {%- endfor %}
    {% endcall %}
    {% do log(this ~ ': filled ' ~ to_fill | join(', ') ~ ' from earlier events', info=true) %}
{% endmacro %}

{# The change events that earlier runs have read, those that may say something of the columns. #}
{% macro _events_read_before(change_log, to_fill) %}
    {% set events = ref('change_events') %}
    {% set mark = _marks()[events.schema ~ '.' ~ events.identifier] %}
    {% if mark.snapshot == 'none' %}
        {% do return('(select * from ' ~ events ~ ' where false)') %}
    {% endif %}
    {% if adapter.has_snapshot(events, mark.snapshot) %}
        {% set before = events ~ ' version as of ' ~ mark.snapshot ~ ' where true' %}
    {% else %}
        {% set before = events ~ ' where _last_updated_sequence_number <= ' ~ mark.sequence %}
    {% endif %}
    {% set named = [] %}
    {% for spec in change_log.columns if spec.column in to_fill %}
        {# A name that JSON would write in more ways than one says nothing about an image's text. #}
        {% if change_log.partial or not modules.re.fullmatch('[A-Za-z0-9_ .-]+', spec.field) %}
            {% do return('(select * from ' ~ before ~ ')') %}
        {% endif %}
        {% for image in ['before', 'after', 'record_key'] %}
            {% do named.append('contains(' ~ image ~ ", '\"" ~ spec.field ~ "\"')") %}
        {% endfor %}
    {% endfor %}
    {% do return('(select * from ' ~ before ~ ' and (' ~ named | join(' or ') ~ '))') %}
{% endmacro %}
