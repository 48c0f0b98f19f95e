"""The live feed: the changes of a list, computed once for all its watchers."""
