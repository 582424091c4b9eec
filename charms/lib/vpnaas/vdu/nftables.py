"""Tables of nftables: the script that replaces one, and a table that is loaded at boot."""

import ipaddress
from typing import Any, List, Optional, Sequence, Union

import attr

from vpnaas.base import fields
from vpnaas.vdu.installed import HEAD, filled
from vpnaas.vdu.programs.hold import VERDICT, verdicts
from vpnaas.vdu.steps import Results, Step, enable, move, printable, read, remove, run, write

NFT = "/usr/sbin/nft"
ADDITIONS = "/etc/systemd/system/nftables.service.d"
AFTER_FLUSH = ADDITIONS + "/osm-vpnaas-{}.conf"
"""The addition to nftables.service that loads a table again, by the name of the table."""
_AT_BOOT = "/etc/systemd/system/sysinit.target.wants/nftables.service"

#: Whoever starts or reloads nftables.service flushes all tables.
_AFTER_FLUSH = """[Service]
ExecStartPost=-{nft} -f {file}
ExecReload=-{nft} -f {file}
"""


def after_flush_text(file: str) -> str:
    return _AFTER_FLUSH.format(nft=NFT, file=file)


_OLD = {"iptables": "/proc/net/ip_tables_names", "ip6tables": "/proc/net/ip6_tables_names"}
"""The old iptables, and the files that exist where the kernel has its tables."""


def look_at_iptables(at: str, pattern: str) -> List[Step]:
    """Return the steps that list rules of the old iptables, which nft does not list.

    `at` starts their ids. The group of the pattern is the name of a chain.
    """
    return [
        run(at + name, name + "-legacy", "-S", only_if=file, pick=pattern, any_exit=True)
        for name, file in _OLD.items()
    ]


def chains_of_iptables(at: str, results: Results) -> List[str]:
    """Return the chains that the pattern found, with the program that has each."""
    return [
        printable("{} of {}".format(chain, name))
        for name in _OLD
        for chain in sorted(set(results.output(at + name).split()))
    ]


def read_additions(id: str) -> Step:
    """Return the step by which systemd reads a new addition.

    systemd does so by itself where nftables.service does not run from boot on.
    """
    return run(id, "systemctl", "daemon-reload", only_if=_AT_BOOT, timeout=90)


@attr.frozen
class BootTable:
    """A table that a systemd unit loads at boot, before the network comes up."""

    name: str  # Part of the names of its files, its unit and its steps.
    table: str  # Name of the table, of family inet.
    what: str  # Description of its unit.

    @property
    def file(self) -> str:
        """Return the path of the nft(8) script; it exists if the table should."""
        return "/etc/osm-vpnaas/{}.nft".format(self.name)

    @property
    def unit(self) -> str:
        return "osm-vpnaas-{}.service".format(self.name)

    @property
    def unit_file(self) -> str:
        return "/etc/systemd/system/" + self.unit

    @property
    def unit_text(self) -> str:
        return filled("table.service", __package__, what=self.what, nft=NFT, file=self.file)

    def look(self) -> Step:
        """Return the step that reads the script, and so tells whether the table should exist."""
        return read(self.name + "/file", self.file, cacheable=True)

    def observe(self) -> List[Step]:
        table = ("nft", "list", "table", "inet", self.table)
        return [
            self.look(),
            read(self.name + "/unit", self.unit_file),
            read(self.name + "/after-flush", AFTER_FLUSH.format(self.name)),
            run(self.name + "/table", *table, any_exit=True, pick=VERDICT),
            run(self.name + "/enabled", "systemctl", "is-enabled", self.unit, any_exit=True),
        ]

    def present(self, results: Results) -> bool:
        return results.text(self.name + "/file") is not None

    def robbed(self, results: Results) -> bool:
        """Tell whether the table lacks rules of the script, or is gone."""
        text, shown = results.text(self.name + "/file") or "", self.name + "/table"
        there = results.exit_code(shown) == 0
        return bool(text) and not (there and verdicts(results.output(shown)) == verdicts(text))

    def steps_to(self, text: Optional[str], results: Results) -> List[Step]:
        """Return the steps that put a script into force; none if it already is.

        With None, they take away what is there.
        """
        if text is None:
            return self._absent() if self.present(results) else []
        in_force = (
            results.text(self.name + "/file") == text
            and results.text(self.name + "/unit") == self.unit_text
            and results.text(self.name + "/after-flush") == after_flush_text(self.file)
            and not self.robbed(results)
            and (results.out(self.name + "/enabled") or "").strip() == "enabled"
        )
        if in_force:
            return []
        new, additions = self.file + ".new", AFTER_FLUSH.format(self.name)
        return [
            write(self.name + "/put", new, text, 0o600),
            write(self.name + "/put-unit", self.unit_file, self.unit_text),
            write(self.name + "/put-after-flush", additions, after_flush_text(self.file)),
            read_additions(self.name + "/read-additions"),
            run(self.name + "/load", "nft", "-f", new),
            # Only a script that the kernel took is compared by the next reconcile and used at boot.
            move(self.name + "/keep", new, self.file),
            enable(self.name + "/enable", self.unit),
        ]

    def stay(self, results: Results) -> List[Step]:
        """Return the steps that put the present script into force; none if there is none."""
        return self.steps_to(results.text(self.name + "/file"), results)

    def _absent(self) -> List[Step]:
        delete = ("nft", "delete", "table", "inet", self.table)
        return [
            run(self.name + "/off", "systemctl", "disable", self.unit, any_exit=True, timeout=90),
            run(self.name + "/delete", *delete, any_exit=True),
            remove(self.name + "/no-unit", self.unit_file),
            remove(self.name + "/no-after-flush", AFTER_FLUSH.format(self.name)),
            remove(self.name + "/no-new", self.file + ".new"),
            remove(self.name + "/no-file", self.file),
        ]


def nft_table(name: str, body: str) -> str:
    """Return the nft(8) script that replaces a table of family inet, in one transaction.

    `body` has its chains; each line ends with a newline.
    """
    return "{0}table inet {1}\ndelete table inet {1}\ntable inet {1} {{\n{2}}}\n".format(
        HEAD, name, body
    )


Matched = Union[fields.IPAddress, fields.IPNetwork]


def family(of: Matched) -> str:
    """Return nft(8)'s word for the IP version of an address or a prefix."""
    return "ip6" if of.version == 6 else "ip"


def prefix_set(prefixes: Sequence[fields.IPNetwork]) -> str:
    """Return an nft(8) set of prefixes of one IP version; it merges those that overlap."""
    collapsed: List[Any] = list(prefixes)
    return "{{ {} }}".format(", ".join(map(str, ipaddress.collapse_addresses(collapsed))))
