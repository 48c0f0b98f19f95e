# For other engine modules only (see rows.pxd): nothing is visible from Python.
