"""The log: in memory, or a folder with a database."""
