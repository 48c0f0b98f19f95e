"""The targets of laurels, each measured by a single run on one machine."""
