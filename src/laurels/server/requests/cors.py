"""Cross-origin access: which pages of other origins may call the API (CORS, see the Fetch
standard)."""

from collections.abc import Sequence

Headers = list[tuple[str, str]]
_EXPOSED = "X-Request-Id, Traceresponse, Retry-After, Idempotency-Replayed, Laurels-As-Of"
PREFLIGHT: Headers = [
    ("access-control-allow-methods", "GET, POST, PUT, PATCH, DELETE"),
    (
        "access-control-allow-headers",
        "Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id, Traceparent, "
        "Laurels-As-Of",
    ),
    ("access-control-max-age", "600"),
]
"""The headers that the answer to a preflight request has besides the CORS headers of every
answer."""


class Origins:
    """The allowed origins; `*` allows all. A page sends its key in a header. Credentials that
    browsers add themselves, such as cookies, are therefore not needed, and not allowed."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._allowed = frozenset(allowed)

    def allows(self, origin: str | None) -> bool:
        return origin is not None and ("*" in self._allowed or origin in self._allowed)

    def headers(self, origin: str | None) -> Headers:
        """Return the CORS headers of an answer to a page. `origin` is the origin of the page."""
        if origin is None or not self.allows(origin):
            return [("vary", "Origin")]
        return [
            ("access-control-allow-origin", origin),
            ("access-control-expose-headers", _EXPOSED),
            ("vary", "Origin"),
        ]
