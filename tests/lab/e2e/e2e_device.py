"""A device outside of 3GPP access that is in two slices by WireGuard."""

from dataclasses import dataclass

from e2e_support import Service, Vdu

PORT = 51830
SERVER = "10.254.2.10"
"""Of each slice: their data networks have the same addresses."""
MARKERS = {"embb": b"slice-embb-12345", "urllc": b"slice-urllc-6789"}
ADDRESSES = {"embb": "172.16.61.2", "urllc": "172.16.62.2"}


@dataclass(frozen=True)
class Slices:
    """Two slices with an access VNF and a server each, and a device in front of both."""

    services: dict[str, Service]
    servers: dict[str, Vdu]
    device: Vdu

    def key(self, name: str) -> str:
        """Make a key on the device, where it stays; return its public half."""
        self.device.out("sh", "-c", f"umask 077; wg genkey >/root/{name}.key")
        private = self.device.out("cat", f"/root/{name}.key").strip()
        self.services["embb"].lab.secrets.add(private, "the device")
        return self.device.out("wg", "pubkey", input=private).strip()

    def enrol(self, slice: str, name: str, **params: str) -> dict[str, str]:
        """Enrol the device and bring it up by the text of the answer."""
        access = self.services[slice]["access"]
        answer: dict[str, str] = access.action(
            "enrol-device", name=name, public_key=self.key(name), routing="by-source", **params
        )
        conf = f"/etc/wireguard/{slice}.conf"
        self.device.out("sh", "-c", f"umask 077; cat >{conf}", input=answer["wg-quick"])
        placeholder = f"PRIVATE-KEY-OF-{name.upper()}"
        self.device.out("sh", "-c", f"sed -i s,{placeholder},$(cat /root/{name}.key), {conf}")
        self.device.out("wg-quick", "up", slice)
        return answer

    def pings(self, slice: str, tries: int = 40, address: str = SERVER) -> bool:
        """Say whether a slice's server answers the device's address in that slice."""
        marked = ("-p", MARKERS[slice].hex(), "-s", "64")
        return self.device.pings(address, "-I", ADDRESSES[slice], *marked, tries=tries)
