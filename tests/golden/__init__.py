"""Golden files: public interfaces and stored data that users rely on. Every change of such a file
is a decision of its own."""
