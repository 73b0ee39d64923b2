"""What the endpoints answer: the models that handlers return, and of which the OpenAPI document consists."""
