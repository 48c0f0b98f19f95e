"""Golden files: public interfaces and stored data that users rely on. Each change of such a file
needs a decision of its own."""
