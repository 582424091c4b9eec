"""Certificates of an N3IWF: what openssl really makes of the steps, and what is refused."""

from __future__ import annotations

import datetime
import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from oai import n3iwf
from oai.n3iwf import N3iwf
from oai.nf_actions import N3iwfActions
from oai.params import expect
from support.functions import acting, params, rendered
from vpnaas.base.errors import InputError
from vpnaas.vdu.facts import Interface, VduFacts
from vpnaas.vdu.steps import Results, Step

NAME = "n3iwf.5gc.mnc088.mcc242.pub.3gppnetwork.org"
PARAMS = expect(N3iwf, params("n3iwf"))


class Here:
    """Runs steps on this machine, with the VDU's files below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, text: str) -> str:
        return text.replace(n3iwf.TLS, str(self.root))

    def execute(self, steps: list[Step]) -> Results:
        found: dict[str, Any] = {}
        for step in steps:
            body = step.body
            path = Path(self.at(body.get("path", "")))
            if body["do"] == "read":
                found[step.id] = {"text": path.read_text() if path.exists() else None}
            elif body["do"] == "write":
                path.write_text(body["text"])
            elif body["do"] == "run" and not Path(self.at(body.get("unless") or "/none")).exists():
                argv = [self.at(word) for word in body["argv"]]
                done = subprocess.run(argv, capture_output=True, text=True, check=False)
                assert done.returncode == 0 or body["any_exit"], done.stderr
                found[step.id] = {"code": done.returncode, "out": done.stdout, "err": done.stderr}
        return Results(found)

    def text(self, file: str) -> str:
        return Path(self.at(file)).read_text()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Here:
    made = Here(tmp_path_factory.mktemp("tls"))
    made.execute(n3iwf.certificate_steps(PARAMS))
    return made


@pytest.mark.slow
def test_the_vdu_s_own_certificate_is_of_its_own_authority(here: Here) -> None:
    before = [here.text(file) for file in n3iwf.files(PARAMS)]
    results = here.execute(n3iwf.certificate_steps(PARAMS))
    assert [here.text(file) for file in n3iwf.files(PARAMS)] == before, "made once"
    leaf, root = (x509.load_pem_x509_certificate(before[at].encode()) for at in (0, 2))
    leaf.verify_directly_issued_by(root)
    names = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [NAME]
    assert n3iwf.authority(results)
    # free5GC signs with RSA; IKE_AUTH's answer has to be one packet.
    key = leaf.public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    assert len(leaf.public_bytes(Encoding.DER)) + key.key_size // 8 < 1500 - 150


@pytest.mark.slow
def test_its_own_certificate_is_renewed_after_two_thirds_of_its_validity(here: Here) -> None:
    answers = {s.id: here.execute([s]) for s in n3iwf.certificate_steps(PARAMS)}
    read = {id: {"text": one.text(id)} for id, one in answers.items() if one.text(id)}

    def after(days: int, **texts: str) -> list[Step]:
        now = int(answers["nf/now"].output("nf/now")) + days * 86400
        observed = {**read, **{key: {"text": text} for key, text in texts.items()}}
        return n3iwf.renewal_steps(PARAMS, Results({**observed, "nf/now": {"out": str(now)}}))

    assert not after(549)
    (renewal,) = after(551)
    assert not after(551, **{"nf/authority/own": str(read["nf/certificate/own"]["text"])})
    certificate = n3iwf.files(PARAMS)[0]
    before = here.text(certificate)
    here.execute([renewal])
    leaf, root = (
        x509.load_pem_x509_certificate(here.text(f).encode())
        for f in (certificate, n3iwf.AUTHORITY)
    )
    assert here.text(certificate) != before
    leaf.verify_directly_issued_by(root)


class Authority:
    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.root = self.sign(None, "root", authority=True)

    def sign(
        self, request: str | None, name: str, days: int = 9, authority: bool = False
    ) -> x509.Certificate:
        key = self.key.public_key()
        if request is not None:
            found = x509.load_pem_x509_csr(request.encode()).public_key()
            assert isinstance(found, rsa.RSAPublicKey)
            key = found
        issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "root")])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(days=10))
        builder = builder.not_valid_after(now + datetime.timedelta(days=days))
        alternative = x509.SubjectAlternativeName([x509.DNSName(name)])
        builder = builder.add_extension(alternative, False)
        constraints = x509.BasicConstraints(authority, 0 if authority else None)
        return builder.add_extension(constraints, True).sign(self.key, SHA256())


def pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


@pytest.fixture(scope="module")
def operator() -> Authority:
    return Authority()


def bring(here: Here, leaf: x509.Certificate, root: x509.Certificate) -> None:
    given = {"certificate": pem(leaf), "ca-certificate": pem(root)}
    results = here.execute(n3iwf.request_steps(PARAMS))
    brought = n3iwf.given_certificate(PARAMS, given, results)
    checked = here.execute(n3iwf.verify_steps(brought))
    here.execute(n3iwf.install_steps(PARAMS, brought, checked))


def asked(here: Here) -> str:
    return here.execute(n3iwf.request_steps(PARAMS)).output("nf/request")


def test_what_does_not_fit_changes_nothing(here: Here, operator: Authority) -> None:
    before = [here.text(file) for file in n3iwf.files(PARAMS)]
    good, other = operator.sign(asked(here), NAME), Authority()
    for leaf, root, words in (
        (operator.sign(None, NAME), operator.root, "certificate: it is for another key"),
        (operator.sign(asked(here), "n3iwf.example"), operator.root, NAME),
        (operator.sign(asked(here), NAME, days=-1), operator.root, "certificate: "),
        (good, good, "ca-certificate: its key may not sign"),
        (good, other.root, "certificate: openssl does not verify it"),
    ):
        with pytest.raises(InputError, match="set-nwu-certificate: ") as caught:
            bring(here, leaf, root)
        assert words in str(caught.value)
    results = here.execute(n3iwf.request_steps(PARAMS))
    with pytest.raises(InputError, match="set-nwu-certificate: certificate"):
        n3iwf.given_certificate(PARAMS, {"certificate": "$(reboot)"}, results)
    assert [here.text(file) for file in n3iwf.files(PARAMS)] == before


def test_an_operator_s_certificate_is_taken_and_told(here: Here, operator: Authority) -> None:
    _, key, _ = n3iwf.files(PARAMS)
    private = here.text(key)
    leaf = operator.sign(asked(here), NAME)
    bring(here, leaf, operator.root)
    results = here.execute(n3iwf.certificate_steps(PARAMS))
    certificate, _, trust = (here.text(file) for file in n3iwf.files(PARAMS))
    assert (certificate, here.text(key)) == (pem(leaf), private)
    assert trust == pem(operator.root)
    assert n3iwf.authority(results) in "".join(pem(operator.root).split())


def test_the_ue_in_a_wifi_gets_what_free5gcs_ue_takes(tmp_path: Path) -> None:
    """Its sources: SPIs are numbers, it writes to its configuration, and logs sessions at info."""
    files = rendered("n3ue", params=params("n3ue", **{"log-level": "error"}))
    document = json.loads(files["/etc/osm-vpnaas/nf/n3ue.yaml"])
    ue = document["configuration"]["N3UEInformation"]
    assert (ue["IkeSaSPI"], ue["IPSecSA3gppControlPlaneSPI"]) == (242881234500000, 234500256)
    assert document["logger"]["N3UE"]["debugLevel"] == "error"
    unit = files["/etc/systemd/system/n3iwue.service"]
    assert "/n3iwue/config" not in unit, "what a volume puts there is read-only"
    assert "n3ue.yaml:/n3iwue/n3ue.yaml:ro" in unit
    (tmp_path / "config").mkdir()
    (tmp_path / "n3ue.yaml").write_text("SQN: 0\n")
    (tmp_path / "n3iwue").write_text("#!/bin/sh\necho SQN: 1 > config/n3ue.yaml\n")
    (tmp_path / "n3iwue").chmod(0o755)
    start = files["/etc/osm-vpnaas/nf/start-n3iwue.sh"].replace(" /n3iwue/", " ./")
    subprocess.run(["sh", "-c", start], check=True, cwd=tmp_path)
    assert (tmp_path / "config/n3ue.yaml").read_text() == "SQN: 1\n"
    assert (tmp_path / "n3ue.yaml").read_text() == "SQN: 0\n"


@pytest.mark.parametrize("name", ["ens3", "ens4", "tagged"])
def test_the_firewall_of_nwu_shuts_out_neither_management_nor_peers(
    name: str,
) -> None:
    links = {"n2": SimpleNamespace(underlay_interface="ens4")}
    intent = SimpleNamespace(links=links)
    state = SimpleNamespace(intent=intent, management=None)
    nics = {nic: Interface(nic, 1500, (), mac="fa:" + nic) for nic in ("ens3", "ens4", "ens6")}
    seen = VduFacts(0, nics, default_interface="ens3", tags={"tagged": "fa:ens4"})
    charm = {"charm_state": lambda: state, "facts": lambda vdu: seen}
    function = acting(N3iwfActions, "n3iwf", **charm).function
    used = "ens4" if name == "tagged" else name
    with pytest.raises(InputError, match=f"nwu-interface: {used} is the interface of management"):
        function.check_device(params("n3iwf", **{"nwu-interface": name}))
    function.check_device(params("n3iwf"))
