"""The pure parts of the orchestration, quirk by quirk."""

import copy
import re
import socket
import string
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.lcm_fakes import day12_of, nsd, params, vnfd

from builder.declarations import NAME
from builder.naming import application_name, juju_name
from builder.validate.cloudinit_rules import OSM_KEYS
from lab.cli.heal_options import heal_words
from lab.cluster.frontend import Frontend
from lab.descriptors.day0 import osm_params, render_user_data
from lab.descriptors.environments import environments, vdu_count
from lab.descriptors.naming import host_name, server_name
from lab.descriptors.primitives import by_seq, map_primitive_params, terminate_params
from lab.descriptors.relations import relations
from lab.descriptors.topology import plan
from lab.errors import LcmError, NbiError
from lab.lcm.helmops import HelmOps, release
from lab.lcm.timeouts import Timeouts, lab_timeouts

# -- names ---------------------------------------------------------------------------------------


def test_name_of_a_vnf_level_application() -> None:
    name = application_name(ee_id="vpn-ee", member_vnf_index="hss", vdu_id=None)
    assert name == "vpn-ee-z0-hss-vnf"


def test_digit_groups_get_a_z_and_parts_are_cut_at_twelve() -> None:
    name = application_name(
        ee_id="a-very-long-environment",
        member_vnf_index="1",
        vdu_id="box-with-long-name",
        count=3,
    )
    assert name == "a-very-long-z3-z1-box-with-lon-z3-vdu"


@given(st.text(string.ascii_letters + string.digits + "_ -", min_size=1, max_size=40))
def test_any_text_of_letters_and_digits_becomes_a_name_juju_takes(text: str) -> None:
    assert NAME.fullmatch(juju_name(text))


@pytest.mark.parametrize("index", ["server_ü", "a.b", "a/b"])
def test_other_characters_stay_as_in_n2vc_and_juju_refuses_them(index: str) -> None:
    name = application_name(ee_id="vpn-ee", member_vnf_index=index, vdu_id=None)
    assert name == f"vpn-ee-z0-{index.replace('_', '-')}-vnf"
    assert NAME.fullmatch(name) is None


def test_server_and_host_names() -> None:
    name = server_name("a" * 20, "b" * 20, "c" * 40, 1)
    assert name == f"{'a' * 20}-{'b' * 20}-{'c' * 40}-1"
    assert host_name("My_NS-1-Box-0") == "my-ns-1-box-0"
    assert len(host_name("x" * 100)) == 63


# -- parameters of primitives --------------------------------------------------------------------


def primitive(*parameters: dict[str, Any], name: str = "act") -> dict[str, Any]:
    return {"name": name, "parameter": list(parameters)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("false", False),
        ("False", False),
        ("FALSE", False),
        (False, False),
        ("true", True),
        ("", True),
        ("0", True),
        ("no", True),
        (0, True),
    ],
)
def test_boolean_is_false_only_for_the_word(text: Any, expected: bool) -> None:
    values = map_primitive_params(
        primitive({"name": "p", "data-type": "BOOLEAN", "value": text}), {}, {}
    )
    assert values == {"p": expected}


def test_integer() -> None:
    entry = primitive({"name": "p", "data-type": "INTEGER", "default-value": "7"})
    assert map_primitive_params(entry, {}, {}) == {"p": 7}
    assert map_primitive_params(entry, {"p": "-1"}, {}) == {"p": -1}
    for bad in ("x", "", "1.5", None):
        with pytest.raises(LcmError, match=r"^Parameter p of primitive act must be integer$"):
            map_primitive_params(entry, {"p": bad}, {})


def test_string_and_untyped_values_are_left_alone() -> None:
    entry = primitive({"name": "a", "data-type": "STRING", "value": 5}, {"name": "b", "value": "x"})
    assert map_primitive_params(entry, {}, {}) == {"a": 5, "b": "x"}


def test_dict_and_list_become_one_line_of_yaml() -> None:
    entry = primitive({"name": "p", "value": "<p>"})
    text = map_primitive_params(entry, {}, {"p": {"a": [1, 2], "b": "c"}})["p"]
    assert text == "{a: [1, 2], b: c}\n"


def test_yaml_mark_is_taken_off() -> None:
    entry = primitive({"name": "p", "value": "<p>"})
    assert map_primitive_params(entry, {}, {"p": "!!yaml {a: 1}"}) == {"p": "{a: 1}"}


def test_substitution_needs_the_whole_value() -> None:
    entry = primitive({"name": "p", "value": "http://<host>/"})
    assert map_primitive_params(entry, {}, {"host": "x"}) == {"p": "http://<host>/"}


@pytest.mark.parametrize("name", ["member_vnf_index", "vim_account", "absent"])
def test_unknown_placeholder_has_lcms_text(name: str) -> None:
    entry = primitive({"name": "p", "value": f"<{name}>"}, name="y")
    message = f"^Parameter <{name}> needed to execute primitive y not provided$"
    with pytest.raises(LcmError, match=message):
        map_primitive_params(entry, {}, {"rw_mgmt_ip": "10.0.0.1"})


def test_parameter_without_any_value_has_lcms_text() -> None:
    with pytest.raises(
        LcmError, match=r"^Parameter p needed to execute primitive act not provided$"
    ):
        map_primitive_params(primitive({"name": "p"}), {}, {})


def test_given_values_win_and_are_not_substituted() -> None:
    entry = primitive({"name": "p", "value": "<x>"})
    assert map_primitive_params(entry, {"p": "<y>"}, {}) == {"p": "<y>"}


def test_terminate_primitives_get_no_substitution_but_a_named_index() -> None:
    entry = primitive({"name": "p", "value": "<x>"}, {"name": "member_vnf_index", "value": "?"})
    assert terminate_params(entry, "5") == {"p": "<x>", "member_vnf_index": "5"}


def test_primitives_run_by_seq_as_a_number() -> None:
    entries = [{"seq": "10", "name": "c"}, {"name": "none"}, {"seq": 2, "name": "b"}]
    assert [p["name"] for p in by_seq(entries)] == ["b", "c"]


# -- cloud-init ----------------------------------------------------------------------------------


def test_day0_escapes_html_unless_safe() -> None:
    text = render_user_data("{{ a }} {{ a|safe }}", {"a": "x&'y'"}, "here")
    assert text == "x&amp;&#39;y&#39; x&'y'"


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ missing }}", "'missing' is undefined"),
        ("{{ OSM.nothing }}", "nothing"),
        ("{% if %}", "Error parsing Jinja2"),
        ("echo ${#a}", "Error parsing Jinja2"),
    ],
)
def test_day0_errors_are_one_sentence(template: str, reason: str) -> None:
    with pytest.raises(LcmError, match=reason) as caught:
        render_user_data(template, {"OSM": {"ns_id": "1"}}, "vnf 1, vdu box")
    assert "vnf 1, vdu box" in str(caught.value)


def test_osm_params() -> None:
    record = {
        "_id": "vnf-1",
        "nsr-id-ref": "ns-1",
        "member-vnf-index-ref": "1",
        "vnfd-ref": "a_vnf",
        "vnfd-id": "id-of-a-package",
        "vim-account-id": "vim",
        "ip-address": None,
        "vdur": [
            {
                "vdu-id-ref": "box",
                "count-index": 0,
                "name": "n",
                "ip-address": "10.0.0.1",
                "interfaces": [{"name": "eth0", "ip-address": "10.0.0.1", "mac-address": None}],
            }
        ],
    }
    values = osm_params(record, "box", 0)
    assert values["ns_id"] == "ns-1"
    assert values["vnf_id"] == "vnf-1"
    assert values["vnfd_ref"] == "a_vnf"
    assert values["vim_account_id"] == "vim"
    assert values["vdu_id"] == "box"
    assert values["count_index"] == 0
    assert "ip_address" not in values
    assert values["vdu"]["box-0"] == {
        "count_index": 0,
        "vdu_id": "box",
        "ip_address": "10.0.0.1",
        "interfaces": {"eth0": {"name": "eth0", "ip_address": "10.0.0.1"}},
    }
    assert values.keys() <= OSM_KEYS


# -- execution environments ------------------------------------------------------------------------


def test_environments_of_the_sample() -> None:
    found = environments(nsd(), {"1": vnfd(), "2": vnfd()}, params())
    assert [(e.application, e.vdu_id, e.ssh_user) for e in found] == [
        ("vpn-ee-z0-z1-vnf", None, "ubuntu"),
        ("vpn-ee-z0-z2-vnf", None, "ubuntu"),
    ]


def test_entry_with_another_id_is_ignored() -> None:
    descriptor = vnfd()
    day12_of(descriptor)[0]["id"] = "something-else"
    assert environments(nsd(), {"1": descriptor}, params()) == []


def test_only_the_first_df_counts() -> None:
    descriptor = vnfd()
    descriptor["df"].insert(0, {"id": "empty"})
    assert environments(nsd(), {"1": descriptor}, params()) == []


def test_vdu_level_has_one_environment_per_instance() -> None:
    descriptor = vnfd()
    day12_of(descriptor)[0]["id"] = "box"
    descriptor["df"][0]["instantiation-level"][0]["vdu-level"][0]["number-of-instances"] = 2
    assert vdu_count(descriptor, "box") == 2
    found = environments(nsd(), {"1": descriptor}, params())
    assert [e.application for e in found] == ["vpn-ee-z0-z1-box-z0-vdu", "vpn-ee-z1-z1-box-z1-vdu"]


def test_config_units() -> None:
    given_params = params()
    given_params["additionalParamsForVnf"][0]["config-units"] = 3
    found = environments(nsd(), {"1": vnfd(), "2": vnfd()}, given_params)
    assert [e.num_units for e in found] == [3, 1]


def test_ssh_access_without_user_injects_nothing() -> None:
    descriptor = vnfd(day12={"config-access": {"ssh-access": {"required": True}}})
    (env,) = environments(nsd(), {"1": descriptor}, params())
    assert env.ssh_required
    assert env.ssh_user is None


def test_a_charm_of_the_service_itself_is_refused() -> None:
    descriptor = nsd()
    descriptor["ns-configuration"]["juju"] = {"charm": "boss"}
    with pytest.raises(LcmError, match="nsd 'an_ns' has a charm, the lab runs charms of VNFs"):
        environments(descriptor, {}, params())


def test_truncated_names_that_collide_are_refused() -> None:
    indexes = ("member-number-one", "member-number-two")
    with pytest.raises(LcmError, match="share the application name"):
        environments(nsd(), {i: vnfd() for i in indexes}, params())


@pytest.mark.parametrize(
    "ee",
    [
        {"id": "e"},
        {"id": "e", "juju": {"charm": "c", "cloud": "k8s"}},
        {"id": "e", "juju": {"charm": "c", "proxy": False}},
    ],
)
def test_other_kinds_of_environments_are_refused(ee: dict[str, Any]) -> None:
    descriptor = vnfd(day12={"execution-environment-list": [ee]})
    with pytest.raises(LcmError, match="the lab runs|is neither"):
        environments(nsd(), {"1": descriptor}, params())


def test_a_release_is_named_as_lcm_names_it() -> None:
    entry = {"execution-environment-list": [{"id": "e", "helm-chart": "vpn-endpoint"}]}
    first, second = environments(nsd(), {i: vnfd(day12=entry) for i in "12"}, params())
    assert first.helm
    assert second.helm
    assert re.fullmatch(r"vpn-endpoint-\d{10}", release(first))
    assert release(first) != release(second)


def test_a_primitive_that_its_pod_does_not_end_fails_in_time() -> None:
    entry = {"execution-environment-list": [{"id": "e", "helm-chart": "vpn-endpoint"}]}
    env, _ = environments(nsd(), {i: vnfd(day12=entry) for i in "12"}, params())
    with socket.create_server(("127.0.0.1", 0)) as silent:
        frontend = Frontend("127.0.0.1", "pod", None, silent.getsockname()[1])

        def call(_: str, namespace: str, release: str, **words: Any) -> Any:
            return frontend.primitive(**words)

        cluster: Any = SimpleNamespace(call=call)
        ops = HelmOps(cluster, env, "ns", Timeouts(), "vnf")
        with pytest.raises(LcmError, match="^Timed out waiting for action to complete$"):
            ops.primitive("run", {}, 0.2)


# -- relations -------------------------------------------------------------------------------------


def related(descriptor: dict[str, Any], vnf: dict[str, Any] | None = None) -> list[Any]:
    vnfds = {"1": vnf or vnfd(), "2": copy.deepcopy(vnf) if vnf else vnfd()}
    return relations(descriptor, vnfds, environments(descriptor, vnfds, params()))


def test_relation_of_the_nsd() -> None:
    (relation,) = related(nsd())
    assert relation.provider == "vpn-ee-z0-z1-vnf:server"
    assert relation.requirer == "vpn-ee-z0-z2-vnf:client"
    assert relation.applications == ("vpn-ee-z0-z1-vnf", "vpn-ee-z0-z2-vnf")


def test_entities_are_refused() -> None:
    descriptor = nsd()
    descriptor["ns-configuration"]["relation"][0] = {
        "name": "l",
        "entities": [{"id": "2", "endpoint": "b"}, {"id": "1", "endpoint": "a"}],
    }
    with pytest.raises(LcmError, match="relation 'l' has entities, the lab reads provider and"):
        related(descriptor)


@pytest.mark.parametrize(
    ("field", "value"),
    [("vnf-profile-id", "9"), ("execution-environment-ref", "other"), ("vdu-profile-id", "box")],
)
def test_an_end_that_does_not_exist_is_refused_at_once(field: str, value: str) -> None:
    descriptor = nsd()
    descriptor["ns-configuration"]["relation"][0]["provider"][field] = value
    with pytest.raises(LcmError, match="no execution environment at"):
        related(descriptor)


def test_an_end_without_endpoint_is_one_sentence() -> None:
    descriptor = nsd()
    del descriptor["ns-configuration"]["relation"][0]["provider"]["endpoint"]
    with pytest.raises(LcmError, match="has an end without endpoint, on which OSM fails$"):
        related(descriptor)


def test_without_reference_the_first_environment_is_taken() -> None:
    descriptor = nsd()
    del descriptor["ns-configuration"]["relation"][0]["provider"]["execution-environment-ref"]
    assert related(descriptor)[0].provider == "vpn-ee-z0-z1-vnf:server"


def test_relation_inside_a_vnfd_and_only_the_first_instance_is_related() -> None:
    descriptor = vnfd()
    box = copy.deepcopy(day12_of(descriptor)[0])
    box["id"] = "box"
    box["execution-environment-list"][0]["id"] = "box-ee"
    box["relation"] = [{"name": "ignored", "provider": {}, "requirer": {}}]
    day12_of(descriptor).append(box)
    day12_of(descriptor)[0]["relation"] = [
        {
            "name": "in",
            "provider": {"endpoint": "a"},
            "requirer": {"vdu-profile-id": "box", "endpoint": "b"},
        }
    ]
    descriptor["df"][0]["instantiation-level"][0]["vdu-level"][0]["number-of-instances"] = 2
    top = nsd()
    del top["ns-configuration"]["relation"]
    found = related(top, descriptor)
    assert [(r.provider, r.requirer) for r in found] == [
        ("vpn-ee-z0-z1-vnf:a", "box-ee-z0-z1-box-z0-vdu:b"),
        ("vpn-ee-z0-z2-vnf:a", "box-ee-z0-z2-box-z0-vdu:b"),
    ]


# -- topology --------------------------------------------------------------------------------------


def planned(**more: Any) -> Any:
    return plan(
        "demo",
        nsd(),
        {"1": vnfd(), "2": vnfd()},
        params(**more),
        {"vim1": "north", "vim2": "south"},
    )


def test_plan_of_the_sample() -> None:
    result = planned()
    server = result.servers[0]
    assert (server.name, server.hostname) == ("demo-1-box-0", "demo-1-box-0")
    assert (server.image, server.vcpus, server.ram_mib, server.disk_gb) == (
        "ubuntu22.04",
        2,
        1536,
        10,
    )
    # position, not the order in the descriptor, decides about ens3 and ens4
    assert [
        (p.tag, p.device, p.management, p.management_vnf, p.port_security) for p in server.ports
    ] == [("eth0", "ens3", True, True, True), ("eth1", "ens4", False, False, False)]
    networks = {n.link: n for n in result.networks}
    assert networks["mgmt"].management
    assert networks["data"].subnet == "10.7.0.0/24"
    assert networks["data"].name == "demo-data"


def test_parameters_override_the_ip_profile_and_fix_addresses() -> None:
    result = planned(
        vld=[
            {
                "name": "data",
                "ip-profile": {"ip-version": "ipv4", "subnet-address": "192.168.8.0/24"},
                "vnfd-connection-point-ref": [
                    {
                        "member-vnf-index-ref": "2",
                        "vnfd-connection-point-ref": "data-ext",
                        "ip-address": "192.168.8.77",
                    }
                ],
            }
        ],
        vnf=[
            {
                "member-vnf-index": "1",
                "vdu": [
                    {
                        "id": "box",
                        "interface": [
                            {
                                "name": "eth1",
                                "ip-address": "192.168.8.5",
                                "mac-address": "02:00:00:00:00:05",
                            }
                        ],
                    }
                ],
            }
        ],
    )
    assert {n.subnet for n in result.networks} == {None, "192.168.8.0/24"}
    assert [s.ports[1].ip for s in result.servers] == ["192.168.8.5", "192.168.8.77"]
    assert result.servers[0].ports[1].mac == "02:00:00:00:00:05"


def test_the_address_of_a_link_is_written_over_that_of_the_nic() -> None:
    """As in `_update_vnfrs` of NBI's instance_topics.py."""
    point = {"member-vnf-index-ref": "1", "vnfd-connection-point-ref": "data-ext"}
    nic = {"name": "eth1", "ip-address": "10.7.0.5"}
    result = planned(
        vld=[{"name": "data", "vnfd-connection-point-ref": [point | {"ip-address": "10.7.0.6"}]}],
        vnf=[{"member-vnf-index": "1", "vdu": [{"id": "box", "interface": [nic]}]}],
    )
    assert result.servers[0].ports[1].ip == "10.7.0.6"


def test_address_in_the_nsd() -> None:
    descriptor = nsd()
    profile = descriptor["df"][0]["vnf-profile"][0]
    profile["virtual-link-connectivity"][1]["constituent-cpd-id"][0]["ip-address"] = "10.7.0.9"
    result = plan("demo", descriptor, {"1": vnfd(), "2": vnfd()}, params(), {})
    assert [s.ports[1].ip for s in result.servers] == ["10.7.0.9", None]


def test_two_vims_get_separate_networks_and_named_ones() -> None:
    result = planned(
        vnf=[{"member-vnf-index": "2", "vimAccountId": "vim2"}],
        vld=[{"name": "data", "vim-network-name": {"vim1": "red", "south": "blue"}}],
    )
    assert [s.vim for s in result.servers] == ["vim1", "vim2"]
    assert {(n.link, n.vim, n.existing) for n in result.networks} == {
        ("mgmt", "vim1", None),
        ("mgmt", "vim2", None),
        ("data", "vim1", "red"),
        ("data", "vim2", "blue"),
    }


def test_a_subnet_is_made_at_the_vim_of_the_service_alone() -> None:
    profile = {"subnet-address": "10.8.0.0/24"}

    def subnets(vim: str, **link: Any) -> set[tuple[str, str | None, str | None]]:
        result = planned(
            vnf=[{"member-vnf-index": "2", "vimAccountId": vim}],
            vld=[{"name": "data", "ip-profile": profile, **link}],
        )
        return {(n.vim, n.existing, n.subnet) for n in result.networks if n.link == "data"}

    assert subnets("vim2") == {("vim1", None, "10.8.0.0/24"), ("vim2", None, None)}
    assert subnets("vim2", **{"vim-network-name": {"south": "blue"}}) == {
        ("vim1", None, "10.8.0.0/24"),
        ("vim2", "blue", None),
    }
    # The name for the service's VIM goes to the others as well.
    assert ("vim2", "red", None) in subnets("vim2", **{"vim-network-name": "red"})
    assert ("vim2", "red", None) in subnets("vim2", **{"vim-network-name": {"vim1": "red"}})
    # Naming the service's own VIM loses its subnet, too.
    assert subnets("vim1") == {("vim1", None, None)}


def test_every_link_has_a_network_at_the_vim_of_the_service() -> None:
    result = planned(vnf=[{"member-vnf-index": i, "vimAccountId": "vim2"} for i in "12"])
    assert {(n.link, n.vim) for n in result.networks} == {
        (link, vim) for link in ("mgmt", "data") for vim in ("vim1", "vim2")
    }


def test_a_given_ip_profile_replaces_that_of_the_nsd_as_a_whole() -> None:
    descriptor = nsd()
    layer3 = {"cidr": "10.7.0.0/24", "gateway-ip": "10.7.0.1"}
    descriptor["df"][0]["virtual-link-profile"] = [
        {
            "id": "data",
            "virtual-link-desc-id": "data",
            "virtual-link-protocol-data": {"l3-protocol-data": layer3},
        }
    ]
    given = params(vld=[{"name": "data", "ip-profile": {"subnet-address": "10.9.0.0/24"}}])
    result = plan("demo", descriptor, {"1": vnfd(), "2": vnfd()}, given, {})
    (data,) = [n for n in result.networks if n.link == "data"]
    assert (data.subnet, data.gateway) == ("10.9.0.0/24", None)


@pytest.mark.parametrize(
    ("of_nsd", "of_params", "dhcp", "pool"),
    [
        # Neutron's default counts only where RO gets no ip-profile; LCM's default is off.
        (None, None, True, None),
        ({}, None, False, None),
        ({"dhcp-enabled": True}, None, True, None),
        ({"dhcp-enabled": False}, None, False, None),
        ({"dhcp-enabled": True}, {}, False, None),
        ({"dhcp-enabled": True}, {"enabled": False}, False, None),
        (
            {"dhcp-enabled": False},
            {"enabled": True, "start-address": "10.7.0.200", "count": 20},
            True,
            ("10.7.0.200", "10.7.0.219"),
        ),
    ],
)
def test_dhcp_of_a_network_is_what_lcm_and_ro_make_of_the_ip_profile(
    of_nsd: dict[str, Any] | None,
    of_params: dict[str, Any] | None,
    dhcp: bool,
    pool: tuple[str, str] | None,
) -> None:
    descriptor, given = nsd(), params()
    descriptor["df"][0]["virtual-link-profile"] = [
        {
            "id": "data",
            "virtual-link-desc-id": "data",
            "virtual-link-protocol-data": {"l3-protocol-data": {"cidr": "10.7.0.0/24", **of_nsd}}
            if of_nsd is not None
            else {},
        }
    ]
    if of_params is not None:
        profile = {"subnet-address": "10.7.0.0/24", "dhcp-params": of_params}
        given = params(vld=[{"name": "data", "ip-profile": profile}])
    result = plan("demo", descriptor, {"1": vnfd(), "2": vnfd()}, given, {})
    (data,) = [n for n in result.networks if n.link == "data"]
    assert (data.dhcp, data.pool) == (dhcp, pool)


def test_ext_cpd_decides_about_port_security() -> None:
    descriptor = vnfd()
    descriptor["ext-cpd"][1]["port-security-enabled"] = True
    result = plan("demo", nsd(), {"1": descriptor, "2": vnfd()}, params(), {})
    assert [s.ports[1].port_security for s in result.servers] == [True, False]


def test_unconnected_interface_is_left_out_with_a_note() -> None:
    descriptor = vnfd()
    descriptor["ext-cpd"].pop()
    result = plan("demo", nsd(), {"1": descriptor}, params(), {})
    assert [p.tag for p in result.servers[0].ports] == ["eth0"]
    assert "eth1" in result.notes[0]


def test_internal_link() -> None:
    descriptor = vnfd()
    descriptor["ext-cpd"].pop()
    descriptor["vdu"][0]["int-cpd"][0]["int-virtual-link-desc"] = "inside"
    result = plan("demo", nsd(), {"1": descriptor}, params(), {})
    assert {n.link for n in result.networks} == {"mgmt", "data", "1/inside"}


def test_without_positions_the_declared_order_counts() -> None:
    descriptor = vnfd()
    del descriptor["vdu"][0]["int-cpd"][1]["virtual-network-interface-requirement"][0]["position"]
    result = plan("demo", nsd(), {"1": descriptor}, params(), {})
    assert [p.tag for p in result.servers[0].ports] == ["eth1", "eth0"]


def test_missing_image_is_one_sentence() -> None:
    descriptor = vnfd()
    descriptor["sw-image-desc"] = []
    with pytest.raises(LcmError, match="has no sw-image-desc 'ubuntu'"):
        plan("demo", nsd(), {"1": descriptor}, params(), {})


# -- timeouts --------------------------------------------------------------------------------------


def test_timeouts_are_osms_times_one_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Timeouts().charm_ready == 3600
    monkeypatch.delenv("OSMLAB_TIMEOUT_FACTOR", raising=False)
    assert lab_timeouts().charm_ready == 360
    monkeypatch.setenv("OSMLAB_TIMEOUT_FACTOR", "1")
    assert lab_timeouts() == Timeouts()


@pytest.mark.parametrize("text", ["0", "-1", "x", "nan", "1e9"])
def test_bad_factor_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("OSMLAB_TIMEOUT_FACTOR", text)
    with pytest.raises(NbiError, match="OSMLAB_TIMEOUT_FACTOR"):
        lab_timeouts()


@pytest.mark.parametrize("given", ["²", "9" * 5000, "-1", "", "1.0"])
def test_count_index_that_is_no_number(given: str) -> None:
    assert heal_words(["--vdu", "box", "--count-index", "12"])["additionalParams"]["vdu"] == [
        {"vdu-id": "box", "count-index": 12}
    ]
    with pytest.raises(NbiError, match="must be a number from 0 to 999999999"):
        heal_words(["--vdu", "box", "--count-index", given])
