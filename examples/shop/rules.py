"""Mailing rules of the shop: functions of a frame with the columns of the log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


def wake(customers: Mapping[str, Any]) -> npt.NDArray[np.str_]:
    """Send a voucher to those who ordered nothing for six weeks, an email to the others."""
    return np.where(np.asarray(customers["idle_weeks"]) >= 6, "voucher", "email")


def reward_loyalty(customers: Mapping[str, Any]) -> npt.NDArray[np.str_]:
    """Send a voucher to loyal customers, an email to the others."""
    return np.where(np.asarray(customers["loyalty"]) >= 0.7, "voucher", "email")
