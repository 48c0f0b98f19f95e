"""The cache of encoded answers, and the sessions of readers, whose answers never go back."""
