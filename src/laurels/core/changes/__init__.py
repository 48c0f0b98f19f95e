"""What changes on a board, kept for those who follow it."""
