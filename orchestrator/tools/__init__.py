"""The tools that a model may call; :data:`orchestrator.tools.registry.TOOL_REGISTRY` lists them."""
