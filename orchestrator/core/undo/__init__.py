"""Putting files back: what a task changed, what an undo of it would do, and in which order.

Theory. An undo is a task whose steps are planned by code and not by a model: it has items, passes the gate, waits for
approvals and for computers that are away, and can be undone itself. What is to be put back is read off the journal
(:mod:`touches`): before each change the hash of what was there became durable with the bracket, and its bytes are in
the store. What may be put back is decided by what is there now (:mod:`planning`): the bytes that the task left are
replaced, anything else was made by somebody and stays unless a person says otherwise.
"""
