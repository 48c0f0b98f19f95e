"""The table of routes, the description of the table, and the files that are served unchanged."""
