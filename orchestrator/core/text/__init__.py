"""Texts: paths, patches, visible characters, and secrets."""
