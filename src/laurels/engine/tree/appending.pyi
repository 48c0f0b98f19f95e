# For other engine modules only (see audit.pxd): nothing is visible from Python.
