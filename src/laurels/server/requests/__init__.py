"""What comes in: the context of a request, its headers, its body, and its repetition."""
