"""What users define and send: boards, columns, labels, events, scores. Pure."""
