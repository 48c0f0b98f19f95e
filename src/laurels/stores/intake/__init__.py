"""Intake, the part that all stores share: it validates commands and gathers concurrent writes."""
