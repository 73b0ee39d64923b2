"""The composition root: from settings to a running orchestrator, and the library form without one."""
