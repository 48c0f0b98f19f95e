"""The targets of laurels: each is a figure of one run on one machine, or a ratio of two such
figures."""
