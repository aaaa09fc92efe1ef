"""What a cycle builds when some topics have news."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from dbt_lakehouse.commands.models_with_news import models_with_news
from dbt_lakehouse.commands.stream_news import News


def node(materialized: str, *upstreams: str, **meta: Any) -> Any:
    return SimpleNamespace(
        resource_type="model",
        config=SimpleNamespace(materialized=materialized, meta=meta),
        depends_on=SimpleNamespace(nodes=[*upstreams]),
    )


def log(*table: str) -> Any:
    return node("change_log", "other_events", change_log={"sources": [[*table]]})


NODES: Mapping[str, Any] = {
    "other_events": node("other_events"),
    "quarantined": node("append_only", "other_events"),
    "remembered": node("state_table"),
    "orders_changes": log("shop", "sales", "orders"),
    "parcels_changes": log("shop", "sales", "parcels"),
    "any_changes": node("change_log", "other_events", change_log={"sources": None}),
    "orders": node("current_state", "orders_changes", "remembered"),
    "parcels": node("current_state", "parcels_changes"),
    "any": node("current_state", "any_changes"),
    "paid": node("append_only", "orders"),
    "both": node("table", "paid", "parcels"),
    "others": node("table", "a_seed"),
    "unique": SimpleNamespace(resource_type="test"),
}
OWN = {"other_events", "quarantined", "remembered"}
ANY = {"any_changes", "any"}
PAIRS = [["a", "shop", "sales", "orders"], ["b", "shop", "sales", "parcels"]]


def test_what_follows_from_the_topics_is_built_and_no_more() -> None:
    orders = {"orders_changes", "orders", "paid", "both"}
    assert models_with_news(NODES, PAIRS, {"a"}) == OWN | ANY | orders
    parcels = {"parcels_changes", "parcels", "both"}
    assert models_with_news(NODES, PAIRS, {"b"}) == OWN | ANY | parcels
    assert models_with_news(NODES, PAIRS, {"a", "b"}) == OWN | ANY | orders | parcels
    assert models_with_news(NODES, PAIRS, {"c"}) == OWN


def test_deletes_without_a_set_are_news_of_all_sets_of_their_namespace() -> None:
    declared = {"sources": [[None, "shop", "carts"]], "namespace": "shop"}
    nodes = {
        "carts_changes": node("change_log", change_log=declared),
        "carts": node("current_state", "carts_changes"),
    }
    pairs = [["carts", None, "shop", "carts"], ["deletes", None, "shop", None]]
    assert models_with_news(nodes, pairs, {"deletes"}) == {"carts_changes", "carts"}
    pairs.append(["others", None, "other", None])
    assert models_with_news(nodes, pairs, {"others"}) == set()


def test_a_log_of_which_nothing_has_come_may_be_in_any_topic() -> None:
    found = models_with_news(NODES, PAIRS[:1], {"c"})
    assert found == OWN | {"parcels_changes", "parcels", "both"}
    assert models_with_news(NODES, [], set()) == NODES.keys() - {"others", "unique"}


def test_topics_have_news_where_their_logs_have_grown() -> None:
    built = News({("a", 0): 5, ("a", 1): 7, ("b", 0): 3}, {}, 1, "2")
    assert built.topics_since(built) == set()
    grown = built._replace(ends={**built.ends, ("a", 1): 8, ("c", 0): 1})
    assert grown.topics_since(built) == {"a", "c"}
    # Whose payloads others have landed is not known by topics.
    for other in ({"bronze": 4}, {"events": "5"}, {"captures": {None: None}}):
        assert grown._replace(**other).topics_since(built) is None


def test_what_others_have_written_before_a_cycle_begins_is_seen() -> None:
    def commit(name: str, appends: bool = True) -> Any:
        return SimpleNamespace(
            name=name, appends=appends, changes_rows=False, parent_snapshot_id=None
        )

    def table(*chain: Any) -> Any:
        return SimpleNamespace(chain=chain, snapshot=chain[0].name)

    news = News({}, {}, 1, "2")
    bronze, events = table(commit("1")), table(commit("2"))
    assert not news.is_overtaken(bronze, events, has_landed=False)
    landed = table(commit("3"), commit("1"))
    assert not news.is_overtaken(landed, events, has_landed=True)
    # Rows that are not the cycle's own, in either table; rewritten ones are none.
    assert news.is_overtaken(landed, events, has_landed=False)
    assert news.is_overtaken(table(commit("4"), *landed.chain), events, has_landed=True)
    assert news.is_overtaken(bronze, table(commit("5"), commit("2")), has_landed=False)
    rewritten = table(commit("6", appends=False), commit("2"))
    assert not news.is_overtaken(bronze, rewritten, has_landed=False)
    assert news.as_of(news._replace(events="6"), bronze, rewritten).events == "6"
