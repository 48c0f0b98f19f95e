"""The handlers: the verbs as HTTP sees them, by what they are about."""
