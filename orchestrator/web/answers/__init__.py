"""What the endpoints answer, as models of the OpenAPI document; what a core model says already stands there.

Nothing is built from these: the endpoints answer plain JSON, and the tests hold that against the document.
"""
