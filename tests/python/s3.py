"""An S3 server of a test's own: rclone's, which keeps the objects of a bucket as files of a folder
and checks signatures.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from commands import wait_until
from postgres import answers

from dbt_lakehouse.config.paths import LOOPBACK
from local_kafka.broker import free_port

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
    with (folder.parent / "s3.log").open("wb") as log:
        server = subprocess.Popen(
            [*program, "--addr", f"{LOOPBACK}:{port}", "--auth-key", f"{KEY},{SECRET}", folder],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
        try:
            wait_until(lambda: answers(port), f"an S3 server listens at {port}")
            yield f"http://{LOOPBACK}:{port}"
        finally:
            server.kill()
            server.wait()
