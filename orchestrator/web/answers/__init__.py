"""Answers of the endpoints: the models that handlers return, and the source of the OpenAPI document."""
