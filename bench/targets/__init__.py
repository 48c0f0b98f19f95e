"""The targets of laurels, each measured in one run on one machine."""
