"""The table of routes, with its description and the files that are served unchanged."""
