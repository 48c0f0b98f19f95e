# For other engine modules only (see tree.pxd): nothing is visible from Python.
