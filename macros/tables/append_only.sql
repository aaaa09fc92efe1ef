{# Refuses what no table of ours can have, and removes a view where it is to be. #}
{% macro prepare_table() %}
    {% do apply_grants(this, config.get('grants'), should_revoke=false) %}
    {% set existing = load_relation(this) %}
    {% if existing is not none and existing.is_view %}
        {% do adapter.drop_relation(existing) %}
    {% endif %}
{% endmacro %}

{# Makes the running model's table anew of a query, and notes with its rows what was read. #}
{% macro replace_table(query, notes={}) %}
    {% set statement = create_table_as(false, this, query) %}
    {{ write(statement) }}
    {% do dbt.record_result(adapter.replace(this, statement, notes)) %}
{% endmacro %}

{# What dbt shows of a model for which there was nothing to do. #}
{% macro nothing_to_do(message='nothing new') %}
    {% do adapter.note_moved(this) %}
    {% do dbt.record_result(message) %}
{% endmacro %}

{#
  Stops a rebuild that nobody has asked for if the table would lose something by it: if what that
  was made of is not there any more.

  Arguments:
      run: the NodeRun.
#}
{% macro refuse_loss(run) %}
    {% if not run.reason %}
        {% do return(none) %}
    {% endif %}
    {% if not run.is_exchanged and run.upstreams %}
        {% set upstream = run.origin %}
        {% set losses = [(
            'of its rows are',
            'select count(*) from (select ' ~ dbt._places(this) ~ ' from ' ~ this ~ ')'
            ~ ' left anti join (select ' ~ dbt._places(upstream) ~ ' from ' ~ upstream ~ ')'
            ~ ' using (topic, partition, offset)'
        )] %}
        {# What it has read may have taken rows away: those would be back. #}
        {% if run.rolled_back_from %}
            {% do losses.append((
                'of the rows that it has read are',
                'select count(*) from (select ' ~ dbt._places(upstream) ~ ' from ' ~ upstream
                ~ ' version as of ' ~ run.rolled_back_from ~ ')'
                ~ ' left anti join (select ' ~ dbt._places(upstream) ~ ' from ' ~ upstream ~ ')'
                ~ ' using (topic, partition, offset)'
            )) %}
        {% endif %}
        {% for what, query in losses %}
            {% set lost = run_query(query)[0][0] %}
            {% if lost %}
                {% do exceptions.raise_compiler_error(
                    this ~ ' has to be rebuilt: ' ~ run.reason ~ '. But ' ~ lost ~ ' ' ~ what
                    ~ ' of events that ' ~ upstream ~ ' no longer has, and would be lost. Bring'
                    ~ ' back what they were made of, or accept the loss with'
                    ~ ' `dbt run --full-refresh -s ' ~ model.name ~ '`'
                ) %}
            {% endif %}
        {% endfor %}
    {% endif %}
    {% do log(this ~ ' is rebuilt: ' ~ run.reason, info=true) %}
{% endmacro %}

{# Where the rows of a table are from: topic, partition and offset. #}
{% macro _places(relation) -%}
    {%- if '_position' in adapter.get_columns_in_relation(relation) | map(attribute='name') -%}
        _position.topic, _position.partition, _position.offset
    {%- else -%}
        topic, partition, offset
    {%- endif -%}
{%- endmacro %}

{# Tells dbt what has become of a model. #}
{% macro record_result(message) %}
    {% do store_raw_result('main', message=message, code='OK', rows_affected='') %}
{% endmacro %}
