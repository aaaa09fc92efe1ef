"""An S3 server of a test's own: rclone's, which keeps the objects of a bucket as files of a folder
and checks signatures.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from dbt_lakehouse.config.paths import LOOPBACK
from local_kafka.broker import free_port
from local_kafka.servers import answers, server

KEY: Final = "key-of-the-tests"
SECRET: Final = "secret-of-the-tests"
# As AWS's SDK finds them.
ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "eu-north-1",
    # Else it sends a checksum behind each object, which is more than this server reads.
    "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
}


@contextmanager
def s3(folder: Path, bucket: str) -> Iterator[str]:
    """A server with its buckets in ``folder``, as long as the block runs, one of this name too; its
    address.
    """
    (folder / bucket).mkdir(parents=True, exist_ok=True)
    port = free_port()
    program = [str(Path(sys.executable).with_name("rclone")), "serve", "s3", "--config", ""]
    options = ["--addr", f"{LOOPBACK}:{port}", "--auth-key", f"{KEY},{SECRET}", str(folder)]
    log = folder.parent / "s3.log"
    with server([*program, *options], log, lambda: answers(port)):
        yield f"http://{LOOPBACK}:{port}"


def place_in_bucket(project: Path, warehouse: str, endpoint: str, **more: str) -> dict[str, str]:
    """Have the files of a project's lake in a bucket, as docs/catalogs.md has it; the properties
    that lead there.
    """
    storage = {"s3.endpoint": endpoint, "s3.path-style-access": "true", **more}
    prefix = "        spark.sql.catalog.lake."
    lines = [f"{prefix}{name}: '{value}'\n" for name, value in storage.items()]
    file = project / "profiles" / "profiles.yml"
    folder = f"""{prefix}warehouse: "{{{{ env_var('LAKEHOUSE_LAKE', 'lake') }}}}/warehouse"\n"""
    before, after = file.read_text().split(folder)
    file.write_text("".join([before, f"{prefix}warehouse: {warehouse}\n", *lines, after]))
    return storage
