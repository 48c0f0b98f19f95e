# For other engine modules only (see branch.pxd): nothing is visible from Python.
