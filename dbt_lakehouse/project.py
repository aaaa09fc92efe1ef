"""Finds the dbt project and its profile for the commands that dbt itself does not run."""

import os
from argparse import Namespace
from pathlib import Path
from typing import Final

from dbt.adapters.spark.connections import SparkCredentials
from dbt.config.runtime import load_profile
from dbt.exceptions import DbtProjectError
from dbt.flags import set_from_args
from dbt_common.context import set_invocation_context
from dbt_common.exceptions import DbtBaseException
from pyspark.sql import SparkSession

from dbt_lakehouse.paths import ROOT
from dbt_lakehouse.session import ConfigurationError, open_session

_PROJECT_FILE: Final = "dbt_project.yml"


def open_project_session(
    project_dir: str | None = None, profiles_dir: str | None = None, target: str | None = None
) -> SparkSession:
    """The session of the project's profile, as ``dbt run`` opens it.

    The project is the given folder, else the current one if it is a dbt project, else the checkout.
    Raises ``ConfigurationError`` if the profile can't be read or its method is not ``session``.
    """
    root = Path(project_dir) if project_dir else Path.cwd()
    if not project_dir and not (root / _PROJECT_FILE).exists():
        root = ROOT
    profiles = profiles_dir or str(root / "profiles")
    # The environment that the profile's env_var reads; set anew, for it is a copy.
    set_invocation_context(os.environ)
    set_from_args(Namespace(PROJECT_DIR=str(root), PROFILES_DIR=profiles), None)
    try:
        profile = load_profile(str(root), {}, target_override=target)
    except (DbtProjectError, DbtBaseException) as error:
        raise ConfigurationError(str(error)) from error
    credentials = profile.credentials
    if not isinstance(credentials, SparkCredentials) or credentials.method != "session":
        raise ConfigurationError(f"target {profile.target_name} is not of `method: session`")
    return open_session(credentials.server_side_parameters)
