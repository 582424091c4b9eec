"""A client whose service answers as a test says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from operate.client import Client

Instance = tuple[str, int] | None


class Answering(Client):
    """Gives each primitive to `answer` instead of a service."""

    def action(
        self,
        ns: str,
        vnf: str,
        name: str,
        params: Mapping[str, Any],
        instance: Instance = None,
    ) -> dict[str, Any]:
        return self.answer(ns, vnf, name, dict(params), instance)

    def answer(
        self, ns: str, vnf: str, name: str, params: dict[str, Any], instance: Instance
    ) -> dict[str, Any]:
        raise NotImplementedError
