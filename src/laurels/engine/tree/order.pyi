# For other engine modules only (see order.pxd): nothing is visible from Python.
