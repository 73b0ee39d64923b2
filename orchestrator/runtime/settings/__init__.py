"""The settings of a node: what there are, and where they come from."""

from orchestrator.runtime.settings.fields import (
    CONFIG_NAME,
    DEFAULT_URL,
    ENV_PREFIX,
    LOOPBACK,
    Settings,
    default_data_dir,
    load_settings,
    unknown_variables,
)

__all__ = [
    "CONFIG_NAME",
    "DEFAULT_URL",
    "ENV_PREFIX",
    "LOOPBACK",
    "Settings",
    "default_data_dir",
    "load_settings",
    "unknown_variables",
]
