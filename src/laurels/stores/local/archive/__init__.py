"""The archive of the local store: the standings of sealed periods, in immutable segments."""
