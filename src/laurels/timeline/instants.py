"""The range of instants that laurels supports, in milliseconds since 1970 UTC."""

MIN_MS = -2_208_988_800_000
"""The first instant of the year 1900, UTC: no event is earlier."""
MAX_MS = 250_246_627_200_000
"""The first instant of the year 9900, UTC: every event is earlier."""
