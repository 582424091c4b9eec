"""S-NSSAI in the forms of configuration files, SBI, NAS and NGAP (3GPP TS 23.003 clause 28.4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from simulators.errors import EpcError

NO_SD = 0xFFFFFF  # The value that means "no slice differentiator".


@dataclass(frozen=True, order=True)
class Snssai:
    """A slice: slice/service type (0 to 255), and slice differentiator (24 bits)."""

    sst: int
    sd: int = NO_SD

    def __str__(self) -> str:
        """Return SST and SD in OAI's format."""
        return f"{self.sst}, {self.sd:06x}"

    @classmethod
    def of(cls, value: Mapping[str, Any]) -> "Snssai":
        """Read ``sst`` and ``sd`` (hexadecimal text) of a configuration or an SBI message."""
        try:
            sst = int(str(value["sst"]), 0)
            given = value.get("sd")
            sd = NO_SD if given in (None, "") else int(str(given), 16)
        except (KeyError, ValueError, AttributeError):
            raise EpcError(f"{value!r} is not an S-NSSAI.") from None
        if not 0 <= sst <= 255 or not 0 <= sd <= NO_SD:
            raise EpcError(f"{value!r} is not an S-NSSAI: SST has 8 bits, SD 24.")
        return cls(sst, sd)

    @property
    def json(self) -> dict[str, Any]:
        """Return it in the form of TS 29.571."""
        return {"sst": self.sst} | ({} if self.sd == NO_SD else {"sd": f"{self.sd:06x}"})

    @property
    def nas(self) -> dict[str, int]:
        """Return it in the form of pycrate's NAS."""
        return {"SST": self.sst} | ({} if self.sd == NO_SD else {"SD": self.sd})

    @classmethod
    def of_nas(cls, value: Mapping[str, int]) -> "Snssai":
        return cls(value["SST"], value.get("SD", NO_SD))

    @property
    def ngap(self) -> dict[str, bytes]:
        sd = {} if self.sd == NO_SD else {"sD": self.sd.to_bytes(3, "big")}
        return {"sST": bytes([self.sst])} | sd

    @classmethod
    def of_ngap(cls, value: Mapping[str, bytes]) -> "Snssai":
        return cls(value["sST"][0], int.from_bytes(value.get("sD", b"\xff\xff\xff"), "big"))
