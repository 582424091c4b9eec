import jinja2
import pytest
import yaml

pytestmark = pytest.mark.slow


def as_ro(text, **values):
    """Render as OSM's resource orchestrator does (strict names, HTML escaping everywhere)."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(default_for_string=True, default=True),
    )
    return environment.from_string(text).render(values)


def rendered(unpacked, package, vdu, **values):
    (path,) = (unpacked[package] / "cloud_init").iterdir()
    text = as_ro(path.read_text(), OSM={"vdu_id": vdu, "member_vnf_index": vdu}, **values)
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
    ("secgw_vnf", "secgw"),
    ("sitegw_vnf", "sitegw"),
    ("access_vnf", "access"),
    ("smf_vnf", "smf"),
    ("upf_vnf", "upf"),
]
PLAIN = ("vpn_endpoint_vnf", "secgw_vnf", "sitegw_vnf", "access_vnf")


@pytest.mark.parametrize(("package", "vdu"), VDUS)
def test_it_survives_osm_and_opens_no_door(unpacked, package, vdu):
    document = rendered(unpacked, package, vdu)
    assert {"wireguard-tools", "iperf3"} <= set(document["packages"])
    assert ("podman" in document["packages"]) == (package not in PLAIN)
    assert document["package_update"] is True
    assert document["ssh_pwauth"] is False
    for key in ("password", "chpasswd", "users", "passwd"):
        assert key not in document


@pytest.mark.parametrize(("package", "vdu"), VDUS)
def test_only_user_plane_and_gateways_forward(unpacked, package, vdu):
    login, file = rendered(unpacked, package, vdu)["write_files"]
    assert login["path"] == "/etc/ssh/sshd_config.d/50-cloud-init.conf"
    settings = [
        line.split(" = ") for line in file["content"].splitlines() if not line.startswith("#")
    ]
    values = dict(settings)
    assert values["net.ipv4.conf.all.rp_filter"] == "2"
    gateways = ("secgw", "sitegw", "access")
    assert ("net.ipv4.ip_forward" in values) == (vdu in ("spgwu", "upf", *gateways))
    assert ("net.ipv6.conf.all.forwarding" in values) == (vdu in gateways)


@pytest.mark.parametrize("address", ["none", "192.168.122.11"])
def test_the_nr_box_is_the_router_of_its_site(unpacked, address):
    subnets = "{ 10.44.0.0/30, 192.168.123.0/24 }"
    document = rendered(unpacked, "nr_cell_vnf", "nr", site_nat=address, site_subnets=subnets)
    _, settings, *nat = document["write_files"]
    assert "net.ipv4.ip_forward = 1\n" in settings["content"]
    assert "net.ipv4.conf.all.rp_filter = 2\n" in settings["content"]
    assert bool(nat) == (address != "none")
    for file in nat:
        assert file["permissions"] == "0755"
        assert f"ip saddr {subnets} snat to {address}\n" in file["content"]
    others = rendered(unpacked, "lte_cell_vnf", "lte")
    assert set(document["packages"]) == set(others["packages"])


def test_the_vdu_named_in_it_is_that_of_the_package(documents):
    assert [vdu["id"] for vdu in documents["spgwu_vnf"]["vnfd"]["vdu"]] == ["spgwu"]
