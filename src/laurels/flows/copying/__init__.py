"""Copying boards from one store to another."""
