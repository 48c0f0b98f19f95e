"""Test vectors for the rules that are implemented in several languages. `cases` describes them."""
