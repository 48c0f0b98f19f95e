"""Benchmarks of laurels and its peers, measured side by side on one machine in one run.

`python -m bench` prints tables and writes the same figures as JSON. docs/benchmarks.md explains how
to read the figures and repeat the measurements.
"""
