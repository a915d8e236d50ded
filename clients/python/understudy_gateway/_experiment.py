"""Arms of experiments."""

from __future__ import annotations

import hashlib

from ._texts import well_formed


def assign_arm(experiment_id: str, unit: str, on_share: float = 0.5) -> str:
    """Returns `on` or `off`. The same unit gets the same arm on every machine and in both languages.

    The first 32 bits of SHA-256 over the experiment, a zero byte and the unit, divided by 2**32: `on` if the result is
    below the share.
    """
    digest = hashlib.sha256(well_formed(f"{experiment_id}\0{unit}").encode("utf-8")).digest()
    return "on" if int.from_bytes(digest[:4], "big") / 2**32 < on_share else "off"
