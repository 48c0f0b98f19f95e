# For other engine modules only (see candidates.pxd): nothing is visible from Python.
