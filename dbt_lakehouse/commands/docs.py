"""`lakehouse docs`: dbt's documentation as one file, for the readers of tables.

The page is dbt's own. It shows dbt's manifest and catalog, without parts that are only for
machines; the two files stay as dbt writes them.
"""

import json
from pathlib import Path
from typing import Any, Final

from dbt_lakehouse.errors import ConfigurationError
from dbt_lakehouse.lake.catalog import require_file
from dbt_lakehouse.session.dbt_commands import run_dbt
from dbt_lakehouse.session.project import Project, target_folder
from dbt_lakehouse.telling import tell, working

_UNIT_TEST: Final = "unit_test."
_ADAPTERS: Final = ("dbt", "dbt_spark", "dbt_lakehouse")
# dbt's page cuts descriptions to a few words and details off at the window's edge, and has no
# room for tables beside its menu in a narrow window. Its text is pale, the focus is not marked,
# and there is no dark mode. Its graph is already dark.
_STYLE: Final = """<style>
td[style*="max-width: 1px"] { max-width: none !important; white-space: normal !important; }
.detail-body { white-space: normal !important; overflow: visible !important; }
th, dt, small, .switch-label.btn:not(.active), .app-menu .filename-normal {
  color: #59646d !important;
}
.app-content a:not(.btn), .nav-tabs a { color: #006d75; }
.token.keyword { color: #00628a !important; }
.launcher .field-label { color: #b8eef5 !important; }
:focus-visible { outline: 3px solid #0b57b0 !important; outline-offset: 2px; }
@media (max-width: 959px) {
  body, .app, .app-menu { min-width: 0 !important; }
  .app.app-row { flex-direction: column; }
  .app-menu { width: 100%; height: 30vh; }
  .app-links ul { white-space: normal; flex-wrap: wrap; }
  table :is(th, td):is(:nth-child(4), :nth-child(5)):not([colspan]) { display: none; }
}
@media screen and (prefers-color-scheme: dark) {
  :root { color-scheme: light; background: #fff; filter: invert(.91) hue-rotate(180deg); }
  .launcher-window, .logo { filter: invert(1) hue-rotate(180deg); }
}
</style></head>"""
# Further fixes, in the texts of its templates. If a later dbt has other texts, nothing is
# replaced, and a test in a browser says what is missing.
_MENDED: Final = (
    # It is requested before Angular's braces are filled in, under a name that no page has.
    ('<use xlink:href="{{', '<use ng-attr-href="{{'),
    ("${require('./assets/favicons/favicon.ico')}", "data:,"),
    ("maximum-scale=1,", ""),
    # The focus alone would replace the text being read by search results.
    (
        'ng-focus="onSearchFocus($event, true)"',
        'ng-change="onSearchFocus($event, search.query != \\\'\\\')" aria-label="Search"',
    ),
    # Landmarks for screen readers, and texts in place of pictures.
    ('<div class="app-menu app-column">', '<div class="app-menu app-column" role="navigation">'),
    ('<div class="app-content app-column">', '<div class="app-content app-column" role="main">'),
    ('<svg class="icn', '<svg aria-hidden="true" class="icn'),
    ('class="logo"', 'class="logo" alt="Overview"'),
    ('ng-click="closeGraph()"', 'ng-click="closeGraph()" aria-label="Close the lineage"'),
    ('ng-click="showExpanded()"', 'ng-click="showExpanded()" href aria-label="All of the window"'),
    ('ng-click="onLauncherClick()"', 'ng-click="onLauncherClick()" href aria-label="Lineage"'),
    # Links that only a mouse can reach.
    *(
        (f'ng-click="{call}"', f'ng-click="{call}" href')
        for call in ("activate(item)", "onFolderClick(item)", "copy_to_clipboard()")
    ),
)


def write_docs(project: Project) -> Path:
    """Have dbt inspect project and lake, and write the page. Returns its path. Raises
    ``DbtError``.

    If there is no lake yet, none is created: the page then shows what the project declares.
    """
    with working("writing the documentation"):
        try:
            require_file(project.settings)
        except ConfigurationError as error:
            tell(f"the page shows what the project declares, without SQL: {error}")
            run_dbt(project, "parse")
            run_dbt(project, "docs", "generate", "--no-compile", "--empty-catalog")
        else:
            run_dbt(project, "docs", "generate")
        return write_page(target_folder(project.root))


def write_page(folder: Path) -> Path:
    """Write ``docs.html`` from the files of ``dbt docs generate`` in a folder. Returns its path."""
    page = (folder / "index.html").read_text(encoding="utf-8")
    for theirs, ours in _MENDED:
        page = page.replace(theirs, ours)
    catalog = json.loads((folder / "catalog.json").read_bytes())
    manifest = shown(json.loads((folder / "manifest.json").read_bytes()), catalog)
    for name, content in (("MANIFEST", manifest), ("CATALOG", catalog)):
        # No text in the data may end the script element.
        text = json.dumps(content).replace("</", "<\\/")
        page = page.replace(f'"{name}.JSON INLINE DATA"', text)
    path = folder / "docs.html"
    path.write_text(page.replace("</head>", _STYLE, 1), encoding="utf-8")
    return path


def shown(manifest: dict[str, Any], catalog: dict[str, Any]) -> dict[str, Any]:
    """The part of a manifest that the page shows.

    Unit tests would crowd the lineage, and adapters' macros the list of projects; structured
    values in ``meta`` are for macros. A column that is described only in the lake, as change
    logs' are, gets that description. The page makes no network requests.
    """
    told = {**manifest, "unit_tests": {}}
    told["metadata"] = {**manifest["metadata"], "send_anonymous_usage_stats": False}
    for name in ("parent_map", "child_map"):
        told[name] = {
            node: [each for each in others if not each.startswith(_UNIT_TEST)]
            for node, others in manifest[name].items()
            if not node.startswith(_UNIT_TEST)
        }
    told["macros"] = {
        name: macro
        for name, macro in manifest["macros"].items()
        if macro["package_name"] not in _ADAPTERS
    }
    for kind in ("nodes", "sources", "exposures"):
        told[kind] = {name: _with_plain_meta(node) for name, node in manifest[kind].items()}
    for kind in ("nodes", "sources"):
        for name, table in catalog[kind].items():
            if name in told[kind]:
                told[kind][name]["columns"] = _described(told[kind][name], table["columns"])
    return told


def _described(node: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    columns = dict(node["columns"])
    for name, column in found.items():
        declared = columns.get(name, {"name": name, "description": ""})
        if column["comment"] and not declared["description"]:
            columns[name] = {**declared, "description": column["comment"]}
    return columns


def _with_plain_meta(node: dict[str, Any]) -> dict[str, Any]:
    meta = node.get("meta") or {}
    plain = {name: value for name, value in meta.items() if not isinstance(value, dict | list)}
    return {**node, "meta": plain}
