# For other engine modules only (see appending.pxd): nothing is visible from Python.
