"""The client's logger."""

from __future__ import annotations

import logging

log = logging.getLogger("understudy_gateway")
