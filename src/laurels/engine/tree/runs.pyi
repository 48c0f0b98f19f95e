# For other engine modules only (see runs.pxd): nothing is visible from Python.
