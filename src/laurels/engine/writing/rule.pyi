# For other engine modules only (see rule.pxd): nothing is visible from Python.
