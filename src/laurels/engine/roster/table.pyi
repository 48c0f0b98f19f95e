# For other engine modules only (see table.pxd): nothing is visible from Python.
