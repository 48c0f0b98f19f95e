"""Test vectors for the rules that several languages implement; see `cases`."""
