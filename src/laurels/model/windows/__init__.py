"""Windows: the kinds there are, their forms in definitions, decay and refresh times."""
