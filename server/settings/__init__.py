"""Settings: one model, read from the environment, a TOML file and the command line."""

from duetime.server.settings.model import Settings
from duetime.server.settings.source import load_settings

__all__ = ["Settings", "load_settings"]
