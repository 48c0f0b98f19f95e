# For other engine modules only (see entries.pxd): nothing is visible from Python.
