"""The version of the package. `pyproject.toml` names the same one."""

from __future__ import annotations

__version__ = "0.2.0"
