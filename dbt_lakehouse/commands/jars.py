"""`lakehouse jars --archive`: make the class archive for Spark's JVM, by doing a run's work in a
JVM that records the classes it loads (see ``spark.class_archive``).
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.paths import cache_folder
from dbt_lakehouse.lake.catalog import CATALOG, CATALOG_TYPE, CATALOG_URI, SQLITE, WAREHOUSE
from dbt_lakehouse.session.project import ProjectOptions, load
from dbt_lakehouse.spark.class_archive import ARCHIVE, TARGET
from dbt_lakehouse.spark.jvm import gateway
from dbt_lakehouse.telling import working

# The statements of a run, for the classes that they load; the rows don't matter.
_TRAINING: Final = (
    "create table lake.silver.training (id bigint, at timestamp, tag array<string>) using iceberg",
    "insert into lake.silver.training values (1, timestamp '2020-01-01', null), (2, null, null)",
    "create or replace temporary view changes as select id, max(at) as at, true as is_there "
    "from lake.silver.training group by id",
    "merge into lake.silver.training as target using changes on target.id <=> changes.id "
    "when matched and changes.id = 1 then delete when matched then update set at = changes.at "
    "when not matched then insert (id, at) values (changes.id, changes.at)",
    "select count(*), max(to_json(struct(*))) from lake.silver.training where at is null "
    "union all select 1, string(from_json('{}', 'a int')) "
    "union all select lead(id) over (partition by id order by at), '' from lake.silver.training",
    "describe extended lake.silver.training",
    "show tables in lake.silver",
    "show views in lake.silver",
)


def make_class_archive() -> bool:
    """Make the archive again, in about a minute. Returns whether that has worked; without it
    everything works, only slower.
    """
    with tempfile.TemporaryDirectory(dir=cache_folder("tmp"), prefix="classes-") as folder:
        made = Path(folder) / ARCHIVE.name
        trainer = [sys.executable, "-m", __name__, folder]
        with working("making an archive of Spark's classes"):
            finished = subprocess.run(
                trainer,
                env={**os.environ, TARGET: str(made)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        if finished.returncode != 0 or not made.exists():
            return False
        # Renamed into place: a JVM that mapped a partial file would crash.
        made.replace(ARCHIVE)
    return True


def _train(folder: str) -> None:
    """Open a lake in the folder and use it; the JVM writes the archive when it ends."""
    # Independent of the profile's catalog and storage, which may be shared.
    own_lake = {
        CATALOG_TYPE: "jdbc",
        CATALOG_URI: f"{SQLITE}{folder}/catalog.db",
        WAREHOUSE: f"{folder}/warehouse",
        f"spark.sql.catalog.{CATALOG}.jdbc.schema-version": "V1",
        f"spark.sql.catalog.{CATALOG}.io-impl": "org.apache.iceberg.hadoop.HadoopFileIO",
    }
    project = load(ProjectOptions())
    spark = project._replace(parameters={**project.parameters, **own_lake}).open_session()
    for statement in _TRAINING:
        spark.sql(statement).collect()
    java = gateway()
    spark.stop()
    # The JVM ends with its standard input.
    java.proc.stdin.close()
    java.proc.wait()


if __name__ == "__main__":
    _train(sys.argv[1])
