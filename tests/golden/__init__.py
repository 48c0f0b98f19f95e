"""What users and stored data rely on, frozen: a change of a file here is a decision of its own."""
