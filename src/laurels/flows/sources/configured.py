"""Sources that a server runs, defined in its settings."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct

from laurels.api.aio import AsyncLeaderboards
from laurels.errors.sources import InvalidStream

from .mapping import DEFAULT
from .metrics import SourceMetrics
from .opening import STDIN, open_reader, open_rejects
from .reader import StreamReader
from .runner import SourceRunner
from .settings import SourceSettings
from .template import parse_mapping

RESTART_SECONDS = 30.0
"""The time after which a source that ended is started again."""

SourceName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")]


class ConfiguredSource(
    Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename={"from_": "from"}
):
    """The settings of one source, `[sources.NAME]` of the settings file; see `laurels source run`.

    `from` is the address of the stream.
    """

    from_: str
    map: str = DEFAULT
    boards: str | None = None
    batch: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    begin: Literal["start", "now"] | None = None
    rejects: str | None = None


class BackgroundSources:
    """Runs sources in the process of a service. If a source ends with an error, the error is
    reported and the source is started again at its position."""

    def __init__(
        self,
        settings: Mapping[str, ConfiguredSource],
        lb: AsyncLeaderboards,
        now_ms: Callable[[], int],
        new_run: Callable[[], str],
        report: Callable[[str, str | Exception], None],
    ) -> None:
        """`new_run` returns a random text that identifies a run of a source."""
        self._settings = settings
        self._lb = lb
        self._now_ms = now_ms
        self._new_run = new_run
        self._report = report
        self.metrics = {name: SourceMetrics() for name in settings}
        """The metrics of each source since the service was started."""
        for source in settings.values():
            if source.from_ == STDIN:
                raise InvalidStream("a server cannot read a source from standard input")
            parse_mapping(source.map)
            _open(source, new_run())
            open_rejects(source.rejects, "", lambda _text: None)

    async def run(self) -> None:
        """Run all sources until cancelled."""
        await asyncio.gather(*[self._run_repeatedly(name) for name in self._settings])

    async def _run_repeatedly(self, name: str) -> None:
        while True:
            try:
                await self._run(name)
            except Exception as error:  # the other sources and the service go on
                self._report(name, error)
                self.metrics[name].fail(error, self._now_ms(), RESTART_SECONDS)
            await asyncio.sleep(RESTART_SECONDS)

    async def _run(self, name: str) -> None:
        source = self._settings[name]
        reader = _open(source, self._new_run())
        rejects = open_rejects(source.rejects, name, partial(self._report, name))
        runner = SourceRunner(
            self._lb,
            reader,
            parse_mapping(source.map),
            SourceSettings(name, source.boards, source.batch, source.begin),
            rejects=rejects,
            sleep=asyncio.sleep,
            now_ms=self._now_ms,
            waiting=lambda error, _seconds: self._report(name, str(error)),
            warn=partial(self._report, name),
            metrics=self.metrics[name],
        )
        try:
            await runner.run()
        finally:
            try:
                await rejects.close()
            finally:
                await reader.close()


def _open(source: ConfiguredSource, run: str) -> StreamReader:
    """Return the reader of a source, not yet connected. Raises InvalidStream."""
    return open_reader(source.from_, sleep=asyncio.sleep, stdin=lambda _size: b"", run=run)
