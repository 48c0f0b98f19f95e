"""What sealing a large period computes for each entry, without the interpreter lock."""
