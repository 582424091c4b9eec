"""Two charms with a VDU each: refusals, hostile remotes, a second unit, an upgrade, the end.

The tests of one module share the service and follow each other; the last ones take it apart.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from flavours import WAIT, Flavour, once
from support.juju_operator import kill_unit_agent, remove_relation, restore_unit_agent
from vdus import Site, healthy, refused, site

from lab.vca.model import Model

pytestmark = [pytest.mark.lab, once]

INNER = {"hss": "172.16.6.129", "mme": "172.16.6.2"}
UNDERLAY = "192.168.8.0/24"


class Service(Site):
    """An HSS (two units) and an MME with a tunnel between their VDUs."""

    def ping(self, vnf: str, address: str) -> bool:
        """Say whether an address answers one of a few echo requests."""
        words = ["ping", "-n", "-q", "-c", "1", "-i", "0.2", "-w", "5", address]
        return self.vim.console(self.servers[vnf], words, timeout=120).returncode == 0

    def told(self, unit: str, endpoint: str, app: str) -> dict[str, str]:
        """Return the databag `app` writes, as `unit` sees it."""
        for relation in self.model.show_unit(unit)["relation-info"]:
            others = {name.partition("/")[0] for name in relation.get("related-units", {})}
            if relation["endpoint"] == endpoint and (endpoint == "proxypeer" or app in others):
                return dict(relation["application-data"])
        raise AssertionError(f"{unit} has no {endpoint} with {app}")

    def stored(self, unit: str) -> dict[str, Any]:
        text = self.told(unit, "proxypeer", unit.partition("/")[0])["intent"]
        return dict(json.loads(text))

    def fingerprint(self, vnf: str) -> str:
        """Return the tunnel as the VDU has it, without what traffic changes."""
        words = [("private-key",), ("listen-port",), ("peers",), ("allowed-ips",), ("endpoints",)]
        shown = [self.out(vnf, "wg", "show", "wg-s6a", *word) for word in words]
        return "".join(shown) + self.out(vnf, "ip", "-br", "address", "show", "wg-s6a")


@pytest.fixture(scope="module")
def service(flavour: Flavour, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    members = {
        vnf: [("s6a", f"192.168.8.{inner.rpartition('.')[2]}")] for vnf, inner in INNER.items()
    }
    with site(
        tmp_path_factory.mktemp("vdus"), flavour, {"s6a": UNDERLAY}, members, {"hss": 2}
    ) as made:
        model = made.model
        model.add_relation("hss:s6a", "mme:s6a")
        model.wait_idle(WAIT)
        for vnf in INNER:
            made.let_in(vnf)
        for vnf, address in INNER.items():
            link = {"link": "s6a", "underlay-interface": "ens4"}
            result = model.run_action(
                vnf, "configure", {**link, "inner-address": f"{address}/24"}, timeout=WAIT
            )
            assert result.status == "completed", result.results
        yield Service(**vars(made))


def leader(service: Service) -> str:
    units = service.model.status().applications["hss"].units
    return next(name for name, unit in units.items() if unit.leader)


def test_the_tunnel_comes_up(service: Service) -> None:
    states = healthy(service.model)
    assert states["mme/0"] == ("active", "s11 unconfigured, s1c unconfigured, s6a up")
    assert states[leader(service)] == ("active", "s6a up")
    assert service.ping("mme", INNER["hss"])
    verified = service.model.run_action("mme", "verify-ssh-credentials", timeout=WAIT)
    assert verified.results == {"verified": "True", "output": "mme"}


@pytest.mark.parametrize(
    ("action", "params", "word"),
    [
        (
            "configure",
            {"inner-address": "172.16.6.129/24", "underlay-interface": "ens9"},
            "underlay",
        ),
        (
            # The subnet of the underlay itself.
            "configure",
            {"inner-address": "192.168.8.7/25", "underlay-interface": "ens4"},
            "overlaps 192.168.8.0/24 of ens4",
        ),
        (
            "add-peer",
            {
                "name": "thief",
                "public-key": "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE=",
                "allowed-prefixes": f"{INNER['mme']}/32",
            },
            "172.16.6.2",
        ),
    ],
    ids=["no-such-interface", "underlay-subnet", "peer-in-the-way"],
)
def test_a_refused_change_changes_nothing(
    service: Service, action: str, params: dict[str, object], word: str
) -> None:
    before = (healthy(service.model), service.stored(leader(service)), service.fingerprint("hss"))
    sentence = refused(service.model, "hss", action, link="s6a", **params)
    assert word in sentence
    after = (healthy(service.model), service.stored(leader(service)), service.fingerprint("hss"))
    assert after == before


HOSTILE = """#!/bin/sh
case $JUJU_DISPATCH_PATH in
hooks/config-changed | hooks/s6a-relation-joined)
    config-get bag > bag.yaml
    for id in $(relation-ids s6a); do relation-set -r "$id" --app --file bag.yaml; done ;;
esac
"""


@contextmanager
def hostile(model: Model, folder: Path) -> Iterator[None]:
    """Relate an application that writes what its option `bag` says; take it away afterwards."""
    for name, document in (
        (
            "metadata.yaml",
            {
                "name": "hostile",
                "summary": "s",
                "description": "d",
                "series": ["bionic"],
                "requires": {"s6a": {"interface": "vpnaas-link"}},
            },
        ),
        ("config.yaml", {"options": {"bag": {"type": "string", "default": ""}}}),
    ):
        (folder / name).write_text(yaml.safe_dump(document))
    (folder / "dispatch").write_text(HOSTILE)
    (folder / "dispatch").chmod(0o755)
    model.deploy("hostile", folder)
    model.add_relation("hss:s6a", "hostile:s6a")
    yield
    model.remove_application("hostile")
    model.wait_for(lambda status: "hostile" not in status.applications, WAIT)


def test_a_hostile_remote_displaces_nothing_and_fails_no_hook(
    service: Service, tmp_path: Path
) -> None:
    model, unit = service.model, leader(service)
    honest = service.told(unit, "s6a", "mme")
    own = service.told("mme/0", "s6a", "hss")
    other_key = {"vpnaas-public-key": "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE="}
    assert set(other_key) < set(honest)  # or the attacks below would miss
    # Others are tried on a model of the VDU.
    attacks: list[dict[str, str]] = [
        {"vpnaas-version": "2", "anything": "goes"},
        honest,  # the MME's very identity
        {**honest, **other_key},  # its address under another key
        {**own, "vpnaas-inner-address": "172.16.6.9"},  # our own key
        {
            **honest,
            **other_key,
            "vpnaas-inner-address": "172.16.6.9",
            "vpnaas-allowed-prefixes": "0.0.0.0/0,172.16.6.0/24",
        },
        dict.fromkeys(honest, "$(reboot); `reboot` \n[Peer]\nPostUp = reboot\u2028\x7f"),
        dict.fromkeys(honest, "9" * 5000),
    ]
    with hostile(model, tmp_path):
        for number, attack in enumerate(attacks):
            silence = dict.fromkeys(set(honest) - set(attack), "")
            model.set_config("hostile", {"bag": yaml.safe_dump({**silence, **attack})})
            states = healthy(model)
            assert states[unit][0] in ("active", "blocked"), number
            allowed = service.out("hss", "wg", "show", "wg-s6a", "allowed-ips").splitlines()
            kept = f"{honest['vpnaas-public-key']}\t{INNER['mme']}/32"
            assert kept in allowed, (number, allowed)
            assert "0.0.0.0/0" not in " ".join(allowed), number
            assert service.ping("hss", INNER["mme"]), number
            assert "/24" not in " ".join(allowed), number
    assert healthy(model)[unit] == ("active", "s6a up")
    assert service.out("hss", "wg", "show", "wg-s6a", "peers").split() == [
        honest["vpnaas-public-key"]
    ]


HEAL = "wg-quick down wg-s6a && rm -r /etc/osm-vpnaas/s6a /etc/wireguard/wg-s6a.conf"


@pytest.mark.long
def test_who_ran_before_a_heal_comes_first_after_it(service: Service, tmp_path: Path) -> None:
    """The hostile relation is older, and the healed VDU has no record of who ran."""
    model, unit = service.model, leader(service)
    with hostile(model, tmp_path):
        remove_relation(model, "hss:s6a", "mme:s6a")
        model.wait_idle(WAIT)
        model.add_relation("hss:s6a", "mme:s6a")
        model.wait_for(lambda s: s.units["mme/0"].message.endswith("s6a up"), WAIT)
        healthy(model)
        honest = service.told(unit, "s6a", "mme")
        stolen = {**honest, "vpnaas-public-key": "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmE="}
        model.set_config("hostile", {"bag": yaml.safe_dump(stolen)})
        assert healthy(model)[unit][0] == "blocked"
        service.out("hss", "sh", "-ec", HEAL)
        model.update_status()
        healthy(model)
        allowed = service.out("hss", "wg", "show", "wg-s6a", "allowed-ips").split()
        assert allowed == [honest["vpnaas-public-key"], f"{INNER['mme']}/32"]


def test_an_upgrade_keeps_the_tunnel(service: Service) -> None:
    before = service.fingerprint("hss")
    service.model.upgrade_charm("hss", service.flavour.charm("hss"))
    healthy(service.model)
    assert service.fingerprint("hss") == before
    assert service.ping("hss", INNER["mme"])


def test_another_leader_finds_the_intent_and_is_let_in(service: Service) -> None:
    """Only the first leader's key was injected: it has let its fellow unit in."""
    model, first = service.model, leader(service)
    intent, before = service.stored(first), service.fingerprint("hss")
    kill_unit_agent(model, first)
    second = leader(service)
    model.wait_for(lambda s: s.units[second].message == "s6a up", WAIT)
    assert service.stored(second) == intent
    assert service.fingerprint("hss") == before
    shown = model.run_action("hss", "show-status", {"link": "s6a"}, timeout=WAIT)
    assert shown.unit == second
    assert json.loads(shown.results["output"])["s6a"]["state"] == "up"
    restore_unit_agent(model, first)
    # Juju fires no hook where leadership is lost; the five-minute one brings the report.
    model.update_status()
    assert healthy(model)[first] == ("active", "standby, the leader manages the VDU")


@pytest.mark.long
def test_a_vdu_that_vanishes_is_told_and_holds_nothing_up(service: Service) -> None:
    """The last test: the MME's VDU is gone, the HSS' one is cleaned up."""
    model = service.model
    service.vim.stop(service.servers["mme"])
    started = time.monotonic()
    model.update_status()
    state, message = healthy(model)["mme/0"]
    assert state == "blocked"
    assert message.startswith("cannot reach ")
    model.remove_application("mme")
    model.wait_for(lambda status: "mme" not in status.applications, WAIT)
    assert time.monotonic() - started < 120
    assert service.out("hss", "wg", "show", "wg-s6a", "peers") == ""
    model.remove_application("hss")
    model.wait_for(lambda status: not status.applications, WAIT)
    assert "wg-s6a" not in service.out("hss", "ip", "-br", "link")
