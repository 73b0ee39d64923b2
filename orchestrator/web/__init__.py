"""The endpoints: REST, events and the two sockets, on one port."""
