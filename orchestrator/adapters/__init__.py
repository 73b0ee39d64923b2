"""The adapters behind the ports: stores, buses and models. No adapter imports another."""
