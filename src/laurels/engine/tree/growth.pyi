# For other engine modules only (see growth.pxd): nothing is visible from Python.
