# For other engine modules only (see leaf.pxd): nothing is visible from Python.
