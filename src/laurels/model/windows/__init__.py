"""Windows: their kinds, their form in definitions, decay and refresh times."""
