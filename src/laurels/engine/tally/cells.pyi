# For other engine modules only (see cells.pxd): nothing is visible from Python.
