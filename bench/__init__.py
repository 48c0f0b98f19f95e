"""Benchmarks of laurels and its peers, measured side by side on one machine in one run.

`python -m bench` prints the tables and writes the same figures as JSON; docs/benchmarks.md explains
how to read and repeat the measurements.
"""
