"""Authentication and authorization: keys, tokens and callers, and the boards that callers may
use."""
