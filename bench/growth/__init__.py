"""What an operation costs as a board grows, beside what memory costs as it grows."""
