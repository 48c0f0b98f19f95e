"""What each member made in one step."""
