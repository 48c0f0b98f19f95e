"""The form of the service's log on standard error."""

import logging
import sys

import structlog

from .settings import Settings
from .standard_log import forward_library_log


def _escape(
    _logger: object, _method: str, event: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    """Escape control characters in texts from callers. They could forge a line of the log or move
    the cursor of a terminal."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = "".join([c if c.isprintable() else repr(c)[1:-1] for c in value])
    return event


def settle_log(settings: Settings) -> None:
    """Configure the log on standard error, in a form for people or for programs. A traceback shows
    lines of code but never the values of variables, which may be keys or very long."""
    shape: list[structlog.typing.Processor] = [
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _escape,
    ]
    if settings.log_format == "json":
        traceback = structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        shape += [
            structlog.processors.ExceptionRenderer(traceback),
            structlog.processors.JSONRenderer(),
        ]
    else:
        shape += [
            structlog.dev.ConsoleRenderer(
                colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
            )
        ]
    structlog.configure(
        processors=shape,
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    forward_library_log()
