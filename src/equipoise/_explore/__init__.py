"""A page on this machine: search your own photographs, as they are and balanced."""
