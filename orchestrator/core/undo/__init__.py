"""Putting files back: what a task changed, what an undo of it would do, and in which order.

Theory. An undo is a task whose steps are planned by code and not by a model: it has items, passes the gate, waits for
approvals and for computers that are away, and can be undone itself. The journal says which bytes to put back
(``touches``): before each change the hash of the old bytes became durable with the bracket, and the bytes are in the
store. The present content decides whether that may happen (``plan``): bytes that the task left are replaced. Other
bytes were made by somebody and stay, unless a person says otherwise.
"""
