"""The handlers of the HTTP service, grouped by subject."""
