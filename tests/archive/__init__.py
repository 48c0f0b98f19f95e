"""Tests of the archive of sealed periods."""
