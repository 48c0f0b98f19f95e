"""Functions that sealing a large period calls for all entries at once, without the interpreter
lock."""
