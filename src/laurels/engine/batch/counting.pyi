# For other engine modules only (see counting.pxd): nothing is visible from Python.
