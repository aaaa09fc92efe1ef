"""Macros as they are written: an undefined name is silently false in Jinja, so every name that they
use is looked up here; they call each other by names that no project can take; and each macro and
argument has its description.
"""

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeGuard

import dbt.include.global_project
import dbt.include.spark
import pytest
import yaml
from dbt.adapters.spark.impl import SparkAdapter
from dbt.context.providers import ModelContext
from dbt_common.clients.jinja import get_environment
from jinja2 import nodes

from dbt.adapters.lakehouse.impl import LakehouseAdapter
from dbt_lakehouse.build.model import Built
from dbt_lakehouse.config.paths import ROOT

# What is in front of a macro's name once dbt has parsed it.
PREFIX: Final = "dbt_macro__"
OURS: Final = ("macros", "models", "shared")
ENVIRONMENT: Final = get_environment(None, capture_macros=False)


class Macro(NamedTuple):
    """A macro or materialization, with the names of its arguments."""

    arguments: tuple[str, ...]
    required: int


def files(*folders: Path) -> list[Path]:
    return sorted(path for folder in folders for path in folder.rglob("*.sql"))


@cache
def ours() -> dict[Path, nodes.Template]:
    """Everything of the project that Jinja renders, parsed as dbt does it."""
    found = files(*(ROOT / folder for folder in OURS))
    return {path: ENVIRONMENT.parse(path.read_text()) for path in found}


def macros_in(template: nodes.Template) -> dict[str, Macro]:
    return {
        each.name.removeprefix(PREFIX): Macro(
            tuple(argument.name for argument in each.args), len(each.args) - len(each.defaults)
        )
        for each in template.find_all(nodes.Macro)
    }


@cache
def our_macros() -> dict[str, Macro]:
    return {
        name: macro for template in ours().values() for name, macro in macros_in(template).items()
    }


@cache
def dbts_macros() -> frozenset[str]:
    """The names of the macros of dbt itself."""
    dbts = files(
        *(
            Path(next(iter(each.__path__)))
            for each in (dbt.include.spark, dbt.include.global_project)
        )
    )
    macros = [name for path in dbts for name in macros_in(ENVIRONMENT.parse(path.read_text()))]
    assert {"run_query", "create_table_as", "should_full_refresh"} <= set(macros)
    return frozenset(macros)


@cache
def known_names() -> frozenset[str]:
    """What dbt gives to a model, and the macros that there are."""
    # dbt's documents: what `on-run-end` is given. Macros have their whole names in `dbt`.
    context = [*ModelContext._context_members_, "context", "results", "dbt"]
    return frozenset([*dbts_macros(), *our_macros(), *context, *ENVIRONMENT.globals])


def undefined(template: nodes.Template) -> set[str]:
    """Names that nothing defines where they are used. A name that one branch sets counts as set;
    what is set inside a loop, or the text of a ``set``, is not seen behind it.
    """
    return set(_undefined([template], known_names()))


def _undefined(of: Iterable[nodes.Node], seen: frozenset[str]) -> Iterator[str]:
    here, inner = [], []
    todo = list(of)
    while todo:
        node = todo.pop()
        here.append(node)
        if isinstance(node, nodes.For | nodes.Macro | nodes.CallBlock | nodes.AssignBlock):
            inner.append(node)
            outside = [node.iter] if isinstance(node, nodes.For) else []
            outside += node.defaults if isinstance(node, nodes.Macro | nodes.CallBlock) else []
            outside += [node.call] if isinstance(node, nodes.CallBlock) else []
            todo += [*outside, node.target] if isinstance(node, nodes.AssignBlock) else outside
        else:
            todo += node.iter_child_nodes()
    names = [node for node in here if isinstance(node, nodes.Name)]
    seen |= {name.name for name in names if name.ctx != "load"}
    yield from (each.name for each in names if each.name.removeprefix(PREFIX) not in seen)
    for scope in inner:
        if isinstance(scope, nodes.For):
            body = [*scope.body, *scope.else_, *([scope.test] if scope.test else [])]
            yield from _undefined([scope.target, *body], seen | {"loop"})
        elif isinstance(scope, nodes.AssignBlock):
            yield from _undefined(scope.body, seen)
        else:
            yield from _undefined(
                [*scope.args, *scope.body], seen | {"caller", "varargs", "kwargs"}
            )


def calls(template: nodes.Template) -> Iterator[tuple[str, nodes.Call]]:
    """The calls of macros, by their names without the package."""
    for call in template.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name):
            yield call.node.name.removeprefix(PREFIX), call
        elif _is_whole_name(call.node):
            yield call.node.attr, call


def _is_whole_name(node: nodes.Node) -> TypeGuard[nodes.Getattr]:
    """Whether it is ``dbt.name``: a macro of dbt's or of an adapter's, whatever a project has."""
    return (
        isinstance(node, nodes.Getattr)
        and isinstance(node.node, nodes.Name)
        and node.node.name == "dbt"
    )


def wrong_calls(template: nodes.Template) -> list[str]:
    """Calls of our macros without an argument that has no default: it would be false, too."""
    wrong = []
    for name, call in calls(template):
        macro = our_macros().get(name)
        if macro is None or call.dyn_args is not None or call.dyn_kwargs is not None:
            continue
        named = [each.key for each in call.kwargs]
        given = [*macro.arguments[: len(call.args)], *named]
        if (
            len(call.args) > len(macro.arguments)
            or not set(named) <= set(macro.arguments)
            or not set(macro.arguments[: macro.required]) <= set(given)
        ):
            wrong.append(f"line {call.lineno}: {name}({', '.join(given)})")
    return wrong


def wrong_methods(template: nodes.Template) -> list[str]:
    """What is asked of the adapter that macros can't ask, or not so."""
    wrong = []
    for each in template.find_all(nodes.Getattr):
        if isinstance(each.node, nodes.Name) and each.node.name == "adapter":
            if each.attr not in LakehouseAdapter._available_:
                wrong.append(each.attr)
    for call in template.find_all(nodes.Call):
        method = call.node
        if (
            isinstance(method, nodes.Getattr)
            and isinstance(method.node, nodes.Name)
            and method.node.name == "adapter"
            and call.dyn_args is None
            and call.dyn_kwargs is None
        ):
            signature = inspect.signature(getattr(LakehouseAdapter, method.attr, lambda *_: None))
            try:
                signature.bind(None, *call.args, **{each.key: each for each in call.kwargs})
            except TypeError as error:
                wrong.append(f"{method.attr}: {error}")
    return wrong


@cache
def attributes() -> Mapping[str, frozenset[str]]:
    """What can be asked of values of ours, by the name that macros have for them."""
    return {"built": frozenset(Built._fields)}


def unknown_attributes(template: nodes.Template) -> list[str]:
    return [
        f"line {each.lineno}: {each.node.name}.{each.attr}"
        for each in template.find_all(nodes.Getattr)
        if isinstance(each.node, nodes.Name)
        and each.attr not in attributes().get(each.node.name, frozenset([each.attr]))
    ]


def unknown_macros(template: nodes.Template) -> list[str]:
    """Whole names that no macro has."""
    known = dbts_macros() | our_macros().keys()
    return [
        f"line {each.lineno}: dbt.{each.attr}"
        for each in template.find_all(nodes.Getattr)
        if _is_whole_name(each) and each.attr not in known
    ]


def plain_names(template: nodes.Template) -> set[str]:
    """Our macros that are called, or taken as values, by their plain names: those are a project's
    if it has a macro of that name. Also in texts that dbt renders later, as hooks are.
    """
    ours = our_macros().keys()
    # Called, it is the macro also where a variable has its name later.
    called = {each.node.name for each in template.find_all(nodes.Call) if _is_name(each.node)}
    unbound = {name.removeprefix(PREFIX) for name in _undefined([template], known_names() - ours)}
    texts = (each.value for each in template.find_all(nodes.Const) if isinstance(each.value, str))
    return ((called | unbound) & ours).union(*(plain_names(each) for each in rendered(texts)))


def _is_name(node: nodes.Node) -> TypeGuard[nodes.Name]:
    return isinstance(node, nodes.Name)


def rendered(texts: Iterable[str]) -> Iterator[nodes.Template]:
    """Those of the texts that are Jinja."""
    return (ENVIRONMENT.parse(each) for each in texts if "{{" in each or "{%" in each)


def texts_in(value: Any) -> Iterator[str]:
    """All texts in what YAML has."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts_in(each)


@pytest.mark.parametrize(
    "find", [undefined, wrong_calls, wrong_methods, unknown_attributes, unknown_macros]
)
def test_every_name_is_defined(find: Any) -> None:
    assert len(ours()) >= 60
    wrong = {str(path.relative_to(ROOT)): find(template) for path, template in ours().items()}
    assert {path: found for path, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    ("text", "find", "name"),
    [
        (
            "{% macro m(a) %}{{ a }}{% if truncated %}delete{% endif %}{% endmacro %}",
            undefined,
            "truncated",
        ),
        ("{% test t(model) %}{{ model }}{{ sql_txt('a') }}{% endtest %}", undefined, "sql_txt"),
        (
            "{% materialization m, adapter='lakehouse' %}{% if leaves %}{% endif %}"
            "{% endmaterialization %}",
            undefined,
            "leaves",
        ),
        ("{% for a in [1] %}{% set b = a %}{% endfor %}{{ b }}", undefined, "b"),
        ("{% macro m() %}{{ sql_of_test('a') }}{% endmacro %}", wrong_calls, "sql_of_test"),
        ("{% macro m() %}{{ build_table(1) }}{% endmacro %}", wrong_calls, "build_table"),
        ("{{ sql_of_test(model='a') }}", wrong_calls, "sql_of_test"),
        ("{{ dbt.sql_of_test(model='a') }}", wrong_calls, "sql_of_test"),
        ("{{ dbt.sql_of_tes('a') }}", unknown_macros, "dbt.sql_of_tes"),
        ("{% do adapter.purge(dbt.sql_of_tes) %}", unknown_macros, "dbt.sql_of_tes"),
        ("{% do adapter.observe() %}", wrong_methods, "observe"),
        ("{% do adapter.look_at(this) %}", wrong_methods, "look_at"),
        ("{% do adapter.purge() %}", wrong_methods, "purge"),
        ("{% if built.statment %}{% endif %}", unknown_attributes, "built.statment"),
    ],
)
def test_a_name_that_is_not_is_found(text: str, find: Any, name: str) -> None:
    (found,) = find(ENVIRONMENT.parse(text))
    assert name in found


# What every project that uses the macros renders.
OF_EVERY_PROJECT: Final = tuple(ROOT / folder for folder in ("macros", "shared"))


def test_our_macros_are_called_by_their_whole_names() -> None:
    templates = {
        path: template
        for path, template in ours().items()
        if any(path.is_relative_to(folder) for folder in OF_EVERY_PROJECT)
    }
    whole = [
        each.attr
        for template in templates.values()
        for each in template.find_all(nodes.Getattr)
        if _is_whole_name(each)
    ]
    # Those of dbt are for a project to replace.
    assert set(whole) == {"build_table", "sql_of_test"} <= our_macros().keys()
    plain = {str(path.relative_to(ROOT)): plain_names(each) for path, each in templates.items()}
    assert {path: found for path, found in plain.items() if found} == {}


def test_hooks_call_our_macros_by_their_whole_names() -> None:
    settings = [path for folder in OF_EVERY_PROJECT for path in folder.rglob("*.yml")]
    hooks = 0
    for path in [*settings, ROOT / "dbt_project.yml"]:
        for template in rendered(texts_in(yaml.safe_load(path.read_text()))):
            hooks += sum(name in our_macros() for name, _ in calls(template))
            assert plain_names(template) == set(), path
    assert hooks >= 4


@pytest.mark.parametrize(
    "text",
    [
        "{{ new_rows() }}",
        "{% do new_rows() %}",
        "{%- set at = 'where t > ' ~ new_rows() ~ ')' -%}",
        "{{ dbt.sql_text(new_rows()) }}",
        "{{ adapter.evaluate(a, text=new_rows()) }}",
        "{% if not new_rows() %}{% endif %}",
        "{% for each in new_rows() if each %}{% endfor %}",
        "{% macro m(at=new_rows()) %}{{ at }}{% endmacro %}",
        "{% macro m() %}{% set new_rows = new_rows() %}{{ new_rows }}{% endmacro %}",
        "{% call new_rows() %}{% endcall %}",
        "{% test t(model) %}{{ model }}{{ new_rows() }}{% endtest %}",
        "{% set a %}{{ [1, {'a': (new_rows(), 2)}] | join }}{% endset %}",
        "{{ config(post_hook='{{ new_rows() }}') }}",
        "{{ config(post_hook=['{% do new_rows() %}']) }}",
        # As values.
        "{% do adapter.hold_to_key(this, log, sql, new_rows) %}",
        "{% set at = new_rows %}",
        "{{ new_rows }}",
    ],
)
def test_a_plain_name_is_found(text: str) -> None:
    assert plain_names(ENVIRONMENT.parse(text)) == {"new_rows"}


@pytest.mark.parametrize(
    "text",
    [
        "{{ dbt.new_rows() }}",
        "{% do adapter.evaluate(this, dbt.new_rows) %}",
        "{% macro new_rows(sql_text, key=none) %}{{ sql_text ~ key }}{% endmacro %}",
        "{% set new_rows = 1 %}{{ new_rows }}{{ m(new_rows=2) }}{{ run.new_rows }}",
        "{{ 'new_rows()' }}",
        "{# new_rows() #}new_rows()",
        "{{ run_query(load_relation(this)) }}",
    ],
)
def test_other_names_are_not(text: str) -> None:
    assert plain_names(ENVIRONMENT.parse(text)) == set()


def test_every_macro_and_argument_is_described() -> None:
    """In the file of its folder, and no other is."""
    for folder in sorted({path.parent for path in ours()} - {ROOT / "shared" / "tests"}):
        here = {path: template for path, template in ours().items() if path.parent == folder}
        actual = {
            # What a materialization is said to support is no argument of it.
            name: [each for each in macro.arguments if each != "supported_languages"]
            for template in here.values()
            for name, macro in macros_in(template).items()
        }
        described: dict[str, list[str]] = {}
        for path in folder.glob("*.yml"):
            for each in yaml.safe_load(path.read_text()).get("macros", []):
                assert each["description"].strip(), each["name"]
                arguments = each.get("arguments", [])
                assert all(argument["description"].strip() for argument in arguments), each["name"]
                assert each["name"] not in described
                described[each["name"]] = [argument["name"] for argument in arguments]
                is_private = each["name"].startswith("_")
                assert (each.get("docs") == {"show": False}) == is_private, each["name"]
        assert described == actual, folder.relative_to(ROOT)


# By models of projects, `dbt run-operation`, and dbt-spark's `incremental`.
CALLED_BY_NAME: Final = {
    "new_rows",
    "maintain_tables",
    "redrive",
    "dbt_spark_validate_get_incremental_strategy",
}


def unused(texts: Iterable[str]) -> set[str]:
    """Macros that are defined in some texts and called in none of them."""
    text = re.sub(r"{#.*?#}", "", "".join(texts), flags=re.DOTALL)
    defined = re.findall(r"{%-? *macro +(\w+)", text)
    uses = Counter(re.findall(r"\w+", text))
    return {name for name in defined if uses[name] == 1 and not name.startswith("lakehouse__")}


def test_every_macro_is_called() -> None:
    texts = [path.read_text() for path in [*ours(), ROOT / "dbt_project.yml"]]
    assert unused(texts) - CALLED_BY_NAME == set()
    assert unused([*texts, "{% macro unasked() -%}{# unasked() #}{%- endmacro %}"]) >= {"unasked"}


def test_every_method_for_macros_is_asked() -> None:
    asked = {
        each.attr
        for template in ours().values()
        for each in template.find_all(nodes.Getattr)
        if isinstance(each.node, nodes.Name) and each.node.name == "adapter"
    }
    inherited = SparkAdapter._available_
    assert LakehouseAdapter._available_ - inherited - asked == set()


def test_columns_are_dropped_and_added() -> None:
    """dbt-spark refuses to drop one. That Iceberg does it, dbt's own test in the soak sees."""
    asked: list[str] = []

    def statement(caller: Callable[[], str]) -> str:
        asked.append(" ".join(caller().split()))
        return ""

    file = ROOT / "macros" / "adapter" / "alter_relation_add_remove_columns.sql"
    template = ENVIRONMENT.from_string(file.read_text(), {"statement": statement})
    alter = getattr(template.module, f"{PREFIX}lakehouse__alter_relation_add_remove_columns")
    a, b, c = (SimpleNamespace(quoted=f"`{each}`", data_type="int") for each in "abc")
    for arguments in (([a, b], [c]), ([a], None), (None, [b, c]), ([], [])):
        alter("gold.orders", *arguments)
    assert asked == [
        "alter table gold.orders drop columns (`c`)",
        "alter table gold.orders add columns ( `a` int , `b` int )",
        "alter table gold.orders add columns ( `a` int )",
        "alter table gold.orders drop columns (`b`, `c`)",
    ]
