"""The computers: their sockets, sessions and screens, on this node and on the others."""
