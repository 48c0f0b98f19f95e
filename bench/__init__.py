"""laurels measured side by side with its peers, on one machine, in one run.

`python -m bench` prints the tables and writes the same figures as JSON; docs/benchmarks.md says
how to read and repeat them.
"""
