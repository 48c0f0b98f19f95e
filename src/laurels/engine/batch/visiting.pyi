# For other engine modules only (see visiting.pxd): nothing is visible from Python.
