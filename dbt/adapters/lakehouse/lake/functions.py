"""Functions of sessions: those of logs, by their declarations, with registry schemas."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from dbt.adapters.lakehouse.lake.part import LakePart
from dbt_lakehouse.declared import declarations


class Functions(LakePart):
    """A part of ``SparkLake``; its protocol is in ``build.lake``."""

    def look_function(self, schemas: bool) -> str:
        """The name of a registered function that finds the events of payloads
        (``payload_functions``); ``schemas`` as in ``log_function``.
        """
        from dbt_lakehouse.spark.payload_functions import register_other_events

        tables = self._lake.declared.taken_events().tables
        function = declarations.function_name("look", "", [sorted(map(str, of)) for of in tables])
        self._know_with(
            schemas,
            function,
            lambda spark, known: register_other_events(spark, function, tables, known),
        )
        return function

    def log_function(
        self,
        name: str,
        log: Mapping[str, Any],
        keys: Sequence[Sequence[str]],
        former: Mapping[str, str] | None,
        texts: Sequence[str],
        schemas: bool,
    ) -> str:
        """The name of a registered function that decodes payloads directly to the events of the
        change log of this name (``payload_functions.register_log_events``). ``keys`` and
        ``former`` are as in ``LogRows``, ``texts`` as in ``Log``; ``schemas``: whether it needs the
        schemas that the session has found.

        The first declaration of a session has the plain name, ``decode_<log>``.
        """
        from dbt_lakehouse.spark.payload_functions import register_log_events

        declared = declarations.rows_of(log, keys, former, texts)
        sources = declarations.sources_of(log)
        of = [declared, sorted(map(str, sources or ()))]
        exact = declarations.rows_function_name("decode", name, log, of)
        function = self._plain_or(exact, declarations.decoder_name(name))
        self._know_with(
            schemas,
            function,
            lambda spark, known: register_log_events(spark, function, declared, sources, known),
        )
        return function

    def typed_rows(
        self,
        name: str,
        log: Mapping[str, Any],
        keys: Sequence[Sequence[str]],
        former: Mapping[str, str] | None,
    ) -> str:
        """The name of a registered function that makes the rows of the change log of this name
        (``functions.register_log``). ``keys`` and ``former`` are as in ``LogRows``.
        """
        from dbt_lakehouse.spark.functions import register_log

        declared = declarations.rows_of(log, keys, former)
        function = declarations.rows_function_name("typed", name, log, declared)
        self._know(function, lambda spark: register_log(spark, function, declared))
        return function

    def typed_misfits(self, name: str, log: Mapping[str, Any], columns: Sequence[str]) -> str:
        """The name of a registered function that gives the misfits of the change log of this name
        which fit some of its columns (``functions.register_misfits``).
        """
        from dbt_lakehouse.spark.functions import register_misfits

        specs = [each for each in declarations.rows_of(log).all_columns if each.column in columns]
        function = declarations.function_name("misfits", name, specs)
        self._know(function, lambda spark: register_misfits(spark, function, specs))
        return function

    def know_schemas(self, texts: str) -> None:
        from dbt_lakehouse.lake.avro_schemas import ids_in, schemas_of
        from dbt_lakehouse.spark.functions import register_decoder

        query = ids_in(f"({texts})")
        self._connections.log_statement(query)
        numbers = [row.id for row in self._spark.sql(query).collect()]
        session = self._handle.session
        # A statement may read what several calls have requested.
        session.schemas = {**session.schemas, **schemas_of(self._spark, numbers)}
        register_decoder(self._spark, session.schemas)

    def _plain_or(self, exact: str, plain: str) -> str:
        """The plain name, if it is free in this session or stands for this function; otherwise the
        exact one.
        """
        from dbt_lakehouse.spark.functions import SQL_FUNCTIONS

        if plain in SQL_FUNCTIONS:
            return exact
        if self._lake.only_compiles:
            return plain
        return plain if self._handle.session.decoders.setdefault(plain, exact) == exact else exact

    def _know(self, name: str, register: Callable[[SparkSession], None]) -> None:
        # A command that only compiles needs no session.
        if self._lake.only_compiles:
            return
        session = self._handle.session
        if name not in session.functions:
            register(session.spark)
            session.functions.add(name)

    def _know_with(self, schemas: bool, name: str, register: Callable[..., None]) -> None:
        """``_know`` for a function with the schemas that the session has found, if it needs them:
        then it is registered again each time.
        """
        if schemas:
            self._handle.session.functions.discard(name)
        known = self._handle.session.schemas if schemas else {}
        self._know(name, lambda spark: register(spark, known))
