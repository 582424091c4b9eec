import jinja2
import pytest
import yaml


def as_ro(text, **values):
    """Render as OSM's resource orchestrator does (strict names, HTML escaping everywhere)."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(default_for_string=True, default=True),
    )
    return environment.from_string(text).render(values)


def rendered(unpacked, package, vdu):
    (path,) = (unpacked[package] / "cloud_init").iterdir()
    text = as_ro(path.read_text(), OSM={"vdu_id": vdu, "member_vnf_index": vdu})
    assert text.startswith("#cloud-config\n")
    return yaml.safe_load(text)


VDUS = [
    ("hss_vnf", "hss"),
    ("mme_vnf", "mme"),
    ("spgwc_vnf", "spgwc"),
    ("spgwu_vnf", "spgwu"),
    ("spgwu_vnf_double", "spgwu"),
    ("enb_vnf", "enb"),
    ("ue_vnf", "ue"),
    ("vpn_endpoint_vnf", "endpoint"),
]


@pytest.mark.parametrize(("package", "vdu"), VDUS)
def test_it_survives_osm_and_opens_no_door(unpacked, package, vdu):
    document = rendered(unpacked, package, vdu)
    assert {"wireguard-tools", "iperf3"} <= set(document["packages"])
    assert ("podman" in document["packages"]) == (vdu != "endpoint")
    assert document["package_update"] is True
    assert document["ssh_pwauth"] is False
    for key in ("password", "chpasswd", "users", "passwd"):
        assert key not in document


@pytest.mark.parametrize(("package", "vdu"), VDUS)
def test_only_the_user_plane_forwards(unpacked, package, vdu):
    (file,) = rendered(unpacked, package, vdu)["write_files"]
    settings = [
        line.split(" = ") for line in file["content"].splitlines() if not line.startswith("#")
    ]
    values = dict(settings)
    assert values["net.ipv4.conf.all.rp_filter"] == "2"
    assert ("net.ipv4.ip_forward" in values) == (vdu == "spgwu")


def test_the_vdu_named_in_it_is_that_of_the_package(documents):
    assert [vdu["id"] for vdu in documents["spgwu_vnf"]["vnfd"]["vdu"]] == ["spgwu"]
