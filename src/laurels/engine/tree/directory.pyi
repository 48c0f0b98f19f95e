# For other engine modules only (see directory.pxd): nothing is visible from Python.
