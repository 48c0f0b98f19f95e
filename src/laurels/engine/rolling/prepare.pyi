# For other engine modules only (see prepare.pxd): nothing is visible from Python.
