"""What a change of the code takes: a new question is added to a copy of the source."""
