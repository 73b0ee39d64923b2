"""Scripted models for the judge of success: honest ones and liars."""
