"""Tests of copying boards from one store to another."""
