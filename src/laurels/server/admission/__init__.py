"""Who is let in before a request is read: addresses, connections, rates, load."""
