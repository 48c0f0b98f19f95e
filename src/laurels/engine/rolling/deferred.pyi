# For other engine modules only (see deferred.pxd): nothing is visible from Python.
