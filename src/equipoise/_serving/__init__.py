"""Pages on this machine: a socket, a server with bounds, and a guard before every address."""
