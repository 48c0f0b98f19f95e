"""Forward messages of the standard library's `logging` to the log of the server."""

import logging

import structlog

_log = structlog.get_logger("laurels")


class _ToServerLog(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _log.log(record.levelno, record.getMessage(), exc_info=record.exc_info)


def forward_library_log() -> None:
    """Make the logger `laurels` write to the server's log, in its format."""
    logger = logging.getLogger("laurels")
    logger.handlers = [_ToServerLog()]
    logger.setLevel(logging.INFO)
    logger.propagate = False
