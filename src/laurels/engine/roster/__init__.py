"""Dense ids for members, and the hash table that finds them."""
