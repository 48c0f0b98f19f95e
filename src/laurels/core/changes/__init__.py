"""The changes of a board, kept for programs that follow them."""
