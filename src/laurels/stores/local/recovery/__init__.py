"""Opening a folder again: recovery, verification, rewinding, and backups."""
