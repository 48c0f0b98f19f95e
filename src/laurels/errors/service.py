"""The errors of a service: about HTTP requests, keys and settings. The client of the service raises
the same classes.
"""

from collections.abc import Sequence

from . import Conflict, Fault, InvalidInput, LaurelsError, NotFound, TooLarge, Unavailable


class InvalidQuery(InvalidInput):
    """A query parameter is missing, unknown, or not well-formed."""

    code = "invalid_query"
    advice = "see the parameters of the endpoint in /docs; encode them as UTF-8"


class InvalidBody(InvalidInput):
    """The body is well-formed, but does not have the fields that the endpoint expects."""

    code = "invalid_body"
    advice = "see the body of the endpoint in /docs"


class InvalidMsgpack(InvalidInput):
    """The body is not msgpack."""

    code = "invalid_msgpack"
    advice = "send one msgpack document, or JSON as application/json"


class InvalidPath(InvalidInput):
    """The path is not UTF-8."""

    code = "invalid_path"
    advice = "percent-encode the path as UTF-8; members go into the query or the body"


class NoSuchPath(NotFound):
    """There is no such path."""

    code = "not_found"
    advice = "see /docs for the list of endpoints"


class MethodNotAllowed(InvalidInput):
    """The path exists, but does not support the request's method."""

    code = "method_not_allowed"
    status = 405
    advice = "use one of the methods in the header Allow"

    def __init__(self, what: str, methods: Sequence[str] = ()) -> None:
        super().__init__(what)
        self.methods = methods


class MemberNotRanked(NotFound):
    """The member is not in this ranking."""

    code = "member_not_ranked"
    advice = "check the member, window and labels; a member is ranked once one of its events counts"


class RankNotHeld(NotFound):
    """No member has this rank."""

    code = "rank_not_held"
    advice = "ask for a rank up to the total of the ranking"


class Denied(LaurelsError):  # noqa: N818 (a family, not an error)
    """The caller lacks the required permission."""


class Unauthorized(Denied):
    """The request has no key, or an unknown one."""

    code = "unauthorized"
    status = 401
    advice = "send a key as `Authorization: Bearer lk_…`; `laurels key create` makes one"


class Forbidden(Denied):
    """The key or token does not permit this."""

    code = "forbidden"
    status = 403
    advice = "use a key whose scope and boards cover the request"


class NotLocal(Denied):
    """A server without keys got a request that may come from another machine."""

    code = "not_local"
    status = 403
    advice = (
        "use http://localhost or http://127.0.0.1 on the machine itself; for other machines start "
        "the server without --open and send a key"
    )


class TooManyRequests(Unavailable):
    """The caller sends more requests than its rate allows."""

    code = "too_many_requests"
    status = 429
    advice = "wait for the number of seconds in Retry-After; send events in batches"
    retry_after = 1
    """The seconds to wait."""


class TooManyStreams(Unavailable):
    """The caller, or the server, has too many open streams."""

    code = "too_many_streams"
    status = 429
    advice = "close feeds that are not used, or read at intervals instead"


class Overloaded(Unavailable):
    """Too many writes are waiting, or too many bytes of bodies are in progress."""

    code = "overloaded"
    advice = "wait for the number of seconds in Retry-After; send events in batches"


class Stopping(Unavailable):
    """The server is shutting down."""

    code = "stopping"
    advice = "send the request again when the server has been restarted or replaced"


class BodyTooLarge(TooLarge):
    """The body has more bytes than the server accepts."""

    code = "body_too_large"
    advice = "send the content in several requests"


class TooManyValues(TooLarge):
    """The body, or one of its elements, has more values than the endpoint accepts."""

    code = "too_many_values"
    advice = "see the body of the endpoint in /docs, and send less at once"


class BodyTimedOut(InvalidInput):
    """The body of the request did not arrive in time."""

    code = "body_timed_out"
    status = 408
    advice = "send the body again over a faster connection, or in several requests"


class InvalidRequestId(InvalidInput):
    """The X-Request-Id is not 1 to 128 visible ASCII characters."""

    code = "invalid_request_id"
    advice = "use a value such as a UUID, or leave the header out"


class InvalidHeader(InvalidInput):
    """A header that may occur only once is repeated, or has characters that are not ASCII."""

    code = "invalid_header"
    advice = "send the header once; a proxy in front must not add it a second time"


class UrlTooLong(TooLarge):
    """The path and the query string have more bytes than the server accepts."""

    code = "url_too_long"
    status = 414
    advice = "send large numbers of members in a body: POST …/standings or …/ranks"


class UnsupportedMediaType(InvalidInput):
    """A write has no Content-Type, or a Content-Type that the endpoint does not accept."""

    code = "unsupported_media_type"
    status = 415
    advice = (
        "send `Content-Type: application/json`, also without a body (or application/msgpack and, "
        "for lists, application/x-ndjson)"
    )


class IdempotencyMismatch(Conflict):
    """The Idempotency-Key was already used with another body."""

    code = "idempotency_mismatch"
    status = 422
    advice = "use a new key for a new request, and the same body with the same key"


class InvalidIdempotencyKey(InvalidInput):
    """The Idempotency-Key is not 1 to 100 visible ASCII characters."""

    code = "invalid_idempotency_key"
    advice = "use a value such as a UUID"


class InvalidKey(InvalidInput):
    """A field of the key or token to create is not valid."""

    code = "invalid_key"
    advice = "give a name, a scope (read, write, admin) and patterns of boards"


class KeysDamaged(Fault):
    """The stored keys are damaged: their content is not what was written."""

    code = "keys_damaged"
    advice = (
        "restore keys.json, or remove keys.json and keys.json.previous and create new keys with "
        "`laurels key create`"
    )


class KeysUnavailable(Unavailable):
    """The stored keys cannot be read at the moment, so no caller can be admitted."""

    code = "keys_unavailable"
    advice = "try again when the index server answers; LAURELS_ADMIN_KEY needs no stored key"


class KeysBusy(Unavailable):
    """Other processes are changing the keys at the same time."""

    code = "keys_busy"
    advice = "try again"


class KeyExists(Conflict):
    """A key of this name exists already."""

    code = "key_exists"
    advice = "revoke the existing key first, or give the new key another name"


class UnknownKey(NotFound):
    """There is no key of this name."""

    code = "unknown_key"
    advice = "see the names of the keys with `laurels key list`"


class InvalidSettings(InvalidInput):
    """A setting of the server is unknown or not valid."""

    code = "invalid_settings"
    advice = "see docs/configuration.md, or `laurels serve --help`"


class NotLoopback(InvalidInput):
    """A server without keys may only listen on this machine."""

    code = "not_loopback"
    advice = "omit --open: `laurels serve` makes a key and prints it"


class KeysNeeded(Conflict):
    """The store requires keys, so it cannot be served without them."""

    code = "keys_needed"
    advice = (
        "omit --open and use a key; if none is left, create one with `laurels key create` on the "
        "machine itself"
    )


class WorkerFailed(Fault):
    """A worker failed to start serving."""

    code = "worker_failed"
    advice = "look for the error of the worker in the log"


class AddressInUse(Conflict):
    """Another program listens on that port."""

    code = "address_in_use"
    advice = "stop that program, or choose another port with --port"


class InternalError(Fault):
    """The server failed for a reason that is not in the request."""

    code = "internal_error"
    advice = "look for the request id in the log of the server, and report it"


class ServerUnreachable(Unavailable):
    """The server does not answer."""

    code = "server_unreachable"
    advice = "check the address and that the server runs; a sent write may have been counted"


class UnknownAnswer(Fault):
    """The answer is not from a laurels server, or is from a server of another version."""

    code = "unknown_answer"
    status = 502
    advice = "check the address, and any proxy between client and server"


class ServiceOutdated(Fault):
    """The service is older than its client, and lacks an endpoint that the client needs."""

    code = "service_outdated"
    status = 501
    advice = "upgrade the service before its clients and sinks"
