"""Tests that an extension changes only a few files. The extensions are a query, a column operator,
a window kind and two stores."""
