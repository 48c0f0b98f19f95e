"""The errors of files, streams and messages from which events are read.

Errors of the family `LineRefused` end neither an import nor a source: the line or message is
written to the rejects file with the error's code, as is an event that the board refuses.
"""

from . import Conflict, InvalidInput, NotFound, Unavailable


class SourceUnreadable(InvalidInput):
    """A file to import cannot be opened, or its compressed content is damaged."""

    code = "source_unreadable"
    advice = "check the path and its permissions, and that the file is complete"


class SourceUnavailable(Unavailable):
    """The server from which events are read does not answer."""

    code = "source_unavailable"
    advice = "try again; no event is counted twice"


class LineRefused(InvalidInput):
    """A line or message does not contain a valid event; reading continues with the next one."""


class LineTooLong(LineRefused):
    """The line or message is longer than 1 MiB."""

    code = "line_too_long"
    advice = "check that the file has line breaks, since an event is much shorter"


class LineNotUtf8(LineRefused):
    """The line or message is not UTF-8."""

    code = "line_not_utf8"
    advice = "convert the file or the messages to UTF-8"


class MissingField(LineRefused):
    """The line or message lacks a field that the event needs."""

    code = "missing_field"
    advice = "check the line or message, and the options that map its fields"


class InvalidTemplate(InvalidInput):
    """The mapping of a message's fields to an event is not well-formed."""

    code = "invalid_template"
    advice = "write board=FIELD,member=FIELD,value=FIELD; docs/sources.md has every form"


class InvalidStream(InvalidInput):
    """The address of the stream that a source is to read is not valid."""

    code = "invalid_stream"
    advice = (
        "name the stream as nats://host:port/STREAM, redis://host:port/0/KEY, a "
        "file, or - for standard input"
    )


class InvalidRejects(InvalidInput):
    """The place for rejected messages of a source is not valid."""

    code = "invalid_rejects"
    advice = "name a file, or a subject as nats://host:port/subject"


class RejectsUnavailable(Unavailable):
    """The subject for rejected messages does not take them at present."""

    code = "rejects_unavailable"
    advice = "check that the server runs and a stream has the subject; the source continues then"


class RejectsRefused(Conflict):
    """The subject for rejected messages refuses one, and would refuse it again."""

    code = "rejects_refused"
    advice = (
        "change the limits or permissions of the stream, or choose another place with --rejects; "
        "the source continues at its position"
    )


class MissingNats(InvalidInput):
    """The client package for NATS is not installed."""

    code = "missing_nats"
    advice = "in a checkout of laurels run pip install '.[nats]'"


class StreamMissing(NotFound):
    """There is no stream of this name, or it cannot be read."""

    code = "stream_missing"
    advice = "check the name and the server; the stream has to exist before it is read"


class SourceDiverged(Conflict):
    """The stream is not the one to which the source's stored positions belong."""

    code = "source_diverged"
    advice = (
        "if the stream was created again, run the source once with --begin start, "
        "which counts all its messages, or with --begin now, which counts only new "
        "ones"
    )


class SourceExpired(NotFound):
    """The stream no longer keeps the messages after the source's position."""

    code = "source_expired"
    status = 410
    advice = (
        "run the source once with --begin start, which continues with the oldest message that is "
        "kept; the messages lost before it are not counted"
    )


class SourceShardExpired(NotFound):
    """A shard of a board lost events, and the stream no longer keeps their messages."""

    code = "source_shard_expired"
    status = 410
    advice = (
        "rebuild the board from its ledger (laurels rebuild --from LEDGER --boards BOARD), or run "
        "the source once with --begin start, which continues that shard with the oldest message "
        "that the stream keeps; the messages lost before it are not counted"
    )


class SourceOvertaken(Conflict):
    """Another process moved the position of this source."""

    code = "source_overtaken"
    advice = "run only one process for each source, or give the second source another name"
