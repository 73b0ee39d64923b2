"""The doors: REST, events and the two sockets, on one port."""
