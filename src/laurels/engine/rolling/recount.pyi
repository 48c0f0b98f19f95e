# For other engine modules only (see recount.pxd): nothing is visible from Python.
