"""An OpenStack of Debian 12's packages, in namespaces of its own.

`tools/openstack.sh` starts it in the root that it has made. It writes the programs' configuration,
makes databases, users and networks once, starts all programs, and ends them when it is ended.
Lines for the user go to /srv/progress; the last one is `ready`. What a program says is in
/var/log/openstack. It listens on loopback of its network namespace only.
"""

import configparser
import os
import pwd
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

#: Of all users and services. Only root of the machine comes into the network namespace.
PASSWORD = "openstack"  # noqa: S105

HOST = "127.0.0.1"
KEYSTONE = f"http://{HOST}:5000/v3"
LOGS = Path("/var/log/openstack")
PROGRESS = Path("/srv/progress")
#: A file for each part that is made once.
MADE = Path("/srv/made")
#: Machines boot, by QEMU, where the first argument says so.
DRIVER = "libvirt.LibvirtDriver" if sys.argv[1:] else "fake.FakeDriver"

#: Projects with a user `osm` who may make flavors; `guest` of the first one may not.
PROJECTS = ("north", "south")

#: Flat networks: name, device that Neutron gets, its other end, address of that, range.
FLAT = (
    ("mgmtnet", "mgmt0", "mgmt1", "172.31.0.1/24", "172.31.0.0/24"),
    ("public", "ext0", "ext1", "172.31.1.1/24", "172.31.1.0/24"),
)

SERVICES = {
    "glance": ("image", f"http://{HOST}:9292"),
    "placement": ("placement", f"http://{HOST}:8778"),
    "neutron": ("network", f"http://{HOST}:9696"),
    "nova": ("compute", f"http://{HOST}:8774/v2.1"),
}


def database(name: str) -> dict[str, str]:
    """Return how a program finds its database."""
    return {"connection": f"mysql+pymysql://openstack:{PASSWORD}@{HOST}/{name}?charset=utf8"}


def login(user: str) -> dict[str, str]:
    """Return how a program logs in."""
    return {
        "auth_type": "password",
        "auth_url": KEYSTONE,
        "www_authenticate_uri": KEYSTONE,
        "username": user,
        "password": PASSWORD,
        "project_name": "service",
        "user_domain_name": "Default",
        "project_domain_name": "Default",
        "region_name": "RegionOne",
    }


RABBIT = {"transport_url": f"rabbit://guest:guest@{HOST}:5672/"}

CONFIGURATION: dict[str, dict[str, dict[str, Any]]] = {
    "keystone/keystone.conf": {
        "database": database("keystone"),
        "token": {"provider": "fernet"},
        "identity": {"password_hash_rounds": 4},
    },
    "placement/placement.conf": {
        "placement_database": database("placement"),
        "api": {"auth_strategy": "keystone"},
        "keystone_authtoken": login("placement"),
    },
    "glance/glance-api.conf": {
        "DEFAULT": {"bind_host": HOST, "workers": 1},
        "database": database("glance"),
        "glance_store": {
            "stores": "file",
            "default_store": "file",
            "filesystem_store_datadir": "/var/lib/glance/images/",
        },
        "keystone_authtoken": login("glance"),
        "paste_deploy": {"flavor": "keystone"},
    },
    "neutron/neutron.conf": {
        "DEFAULT": {
            **RABBIT,
            "host": "openstack",
            "bind_host": HOST,
            "core_plugin": "ml2",
            "service_plugins": "router",
            "api_workers": 2,
            "rpc_workers": 1,
            "rpc_state_report_workers": 0,
            "state_path": "/var/lib/neutron",
        },
        "agent": {"root_helper": "sudo /usr/bin/neutron-rootwrap /etc/neutron/rootwrap.conf"},
        "database": database("neutron"),
        "experimental": {"linuxbridge": True},
        "keystone_authtoken": login("neutron"),
        "nova": login("nova"),
        "oslo_concurrency": {"lock_path": "/var/lock/neutron"},
    },
    "neutron/plugins/ml2/ml2_conf.ini": {
        "ml2": {
            "type_drivers": "flat,vxlan",
            "tenant_network_types": "vxlan",
            "mechanism_drivers": "linuxbridge",
            "extension_drivers": "port_security",
        },
        "ml2_type_flat": {"flat_networks": ",".join(name for name, *_ in FLAT)},
        "ml2_type_vxlan": {"vni_ranges": "1:4000"},
    },
    "neutron/plugins/ml2/linuxbridge_agent.ini": {
        "linux_bridge": {
            "physical_interface_mappings": ",".join(f"{name}:{end}" for name, end, *_ in FLAT)
        },
        "vxlan": {"enable_vxlan": True, "local_ip": "10.255.255.1", "l2_population": False},
        "securitygroup": {"firewall_driver": "iptables", "enable_security_group": True},
    },
    "neutron/dhcp_agent.ini": {
        "DEFAULT": {"interface_driver": "linuxbridge", "enable_isolated_metadata": True}
    },
    "neutron/l3_agent.ini": {"DEFAULT": {"interface_driver": "linuxbridge"}},
    "neutron/metadata_agent.ini": {
        "DEFAULT": {
            "nova_metadata_host": HOST,
            "metadata_proxy_shared_secret": PASSWORD,
            "metadata_workers": 1,
        }
    },
    "nova/nova.conf": {
        "DEFAULT": {
            **RABBIT,
            "host": "openstack",
            "my_ip": HOST,
            "enabled_apis": "osapi_compute,metadata",
            "osapi_compute_listen": HOST,
            "osapi_compute_workers": 1,
            "metadata_listen": HOST,
            "metadata_workers": 1,
            "compute_driver": DRIVER,
            "state_path": "/var/lib/nova",
        },
        "api": {"auth_strategy": "keystone"},
        "api_database": database("nova_api"),
        "database": database("nova"),
        "conductor": {"workers": 1},
        "scheduler": {"workers": 1},
        "glance": {"api_servers": f"http://{HOST}:9292"},
        "keystone_authtoken": login("nova"),
        "neutron": {
            **login("neutron"),
            "service_metadata_proxy": True,
            "metadata_proxy_shared_secret": PASSWORD,
        },
        "placement": login("placement"),
        "oslo_concurrency": {"lock_path": "/var/lock/nova"},
        "vnc": {"enabled": False},
        "libvirt": {"virt_type": "qemu"},
    },
}

ML2 = "--config-file=/etc/neutron/neutron.conf --config-file=/etc/neutron/plugins/ml2/ml2_conf.ini"
BRIDGES = f"{ML2} --config-file=/etc/neutron/plugins/ml2/linuxbridge_agent.ini"
KEYS = "--keystone-user=keystone --keystone-group=keystone"
URLS = " ".join(f"--bootstrap-{each}-url={KEYSTONE}/" for each in ("public", "internal", "admin"))

#: What makes the tables: user and commands, one after the other.
TABLES = {
    "nova": (
        "nova-manage api_db sync",
        "nova-manage cell_v2 map_cell0",
        "nova-manage db sync",
        "nova-manage cell_v2 create_cell --name=cell1",
    ),
    "neutron": (f"neutron-db-manage {ML2} upgrade heads",),
    "keystone": (
        "keystone-manage db_sync",
        f"keystone-manage fernet_setup {KEYS}",
        f"keystone-manage credential_setup {KEYS}",
        f"keystone-manage bootstrap {URLS} --bootstrap-region-id=RegionOne",
    ),
    "glance": ("glance-manage --config-file=/etc/glance/glance-api.conf db_sync",),
    "placement": ("placement-manage db sync",),
}


def wsgi(user: str, port: int, script: str) -> str:
    """Return a command that serves a WSGI script; connections are not kept open."""
    return (
        f"uwsgi --plugins=python3 --http-socket={HOST}:{port} --wsgi-file={script} --master "
        "--processes=1 --threads=4 --die-on-term --buffer-size=65535 "
        f"'--add-header=Connection: close' --procname-prefix={user}-"
    )


#: Programs by name: user, command, TCP port that says that it answers.
BASE = {
    "mariadb": (
        "mysql",
        f"mariadbd --bind-address={HOST} --skip-name-resolve --skip-log-bin "
        "--innodb-flush-log-at-trx-commit=0 --performance-schema=OFF --max-connections=500",
        3306,
    ),
    "rabbitmq": ("rabbitmq", "rabbitmq-server", 5672),
    **{name: ("root", name, 0) for name in ("virtlogd", "libvirtd")},
}
APIS = {
    "keystone": ("keystone", wsgi("keystone", 5000, "/usr/bin/keystone-wsgi-public"), 5000),
    "placement": ("placement", wsgi("placement", 8778, "/usr/bin/placement-api"), 8778),
    "glance": ("glance", "glance-api --config-file=/etc/glance/glance-api.conf", 9292),
    "neutron": ("neutron", f"neutron-server {ML2}", 9696),
    "nova-api": ("nova", "nova-api", 8774),
}
AGENTS = {
    "nova-conductor": ("nova", "nova-conductor", 0),
    "nova-scheduler": ("nova", "nova-scheduler", 0),
    "nova-compute": ("root", "nova-compute --config-file=/etc/nova/nova.conf", 0),
    "linuxbridge": ("neutron", f"neutron-linuxbridge-agent {BRIDGES}", 0),
    **{
        agent: (
            "neutron",
            f"neutron-{agent}-agent {ML2} --config-file=/etc/neutron/{agent}_agent.ini",
            0,
        )
        for agent in ("dhcp", "l3", "metadata")
    },
}
ENVIRONMENT = {
    "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "OS_BOOTSTRAP_PASSWORD": PASSWORD,
    "RABBITMQ_NODENAME": "rabbit@localhost",
    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
    "ERL_EPMD_ADDRESS": HOST,
}

running: dict[str, subprocess.Popen[bytes]] = {}


def tell(line: str) -> None:
    """Say what is done now."""
    with PROGRESS.open("a") as file:
        file.write(f"{line}\n")


def fail(line: str) -> NoReturn:
    """Say why it ends."""
    tell(f"FAILED: {line}")
    stop()
    sys.exit(1)


def spawn(user: str, command: str, log: str) -> subprocess.Popen[bytes]:
    """Start a command as a user."""
    account = pwd.getpwnam(user)
    with (LOGS / f"{log}.log").open("ab") as output:
        return subprocess.Popen(
            shlex.split(command),
            cwd="/",
            user=user,
            group=account.pw_gid,
            extra_groups=[],
            env={**ENVIRONMENT, "HOME": account.pw_dir, "USER": user},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )


def run(user: str, command: str) -> None:
    """Run a command as a user until it ends."""
    if spawn(user, command, f"set-up-{user}").wait():
        raise RuntimeError(f"{command[:60]}: see set-up-{user}.log")


def start(programs: dict[str, tuple[str, str, int]]) -> None:
    """Start programs, and wait until those with a port answer."""
    for name, (user, command, _) in programs.items():
        running[name] = spawn(user, command, name)
    for name, (_, _, port) in programs.items():
        end = time.monotonic() + 300
        while port and not listens(port):
            if running[name].poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{name} does not answer: see {name}.log")
            time.sleep(0.5)


def listens(port: int) -> bool:
    """Say whether a server listens on a port."""
    with socket.socket() as asking:
        asking.settimeout(5)
        return asking.connect_ex((HOST, port)) == 0


def stop() -> None:
    """End all programs, databases last."""
    for names in ([*AGENTS, *APIS], [*BASE]):
        ended = [running[name] for name in names if name in running]
        for process in ended:
            process.terminate()
        end = time.monotonic() + 15
        for process in ended:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()


def write_configuration() -> None:
    """Write what the programs read, and the directories they expect."""
    for name, sections in CONFIGURATION.items():
        parser = configparser.RawConfigParser()
        parser.read_dict(sections)
        with Path("/etc", name).open("w") as file:
            parser.write(file)
    for user in ("mysql", "rabbitmq", "keystone", "placement", "glance", "neutron", "nova"):
        run_dirs = [f"/run/{user}", f"/var/lock/{user}", f"/var/lib/{user}", f"/var/log/{user}"]
        run_dirs += ["/run/mysqld"] if user == "mysql" else []
        for place in run_dirs:
            os.makedirs(place, exist_ok=True)
            shutil.chown(place, user, pwd.getpwnam(user).pw_gid)


def make_devices() -> None:
    """Make the devices of the network namespace."""
    lines = ["link set lo up", "link add underlay type bridge"]
    lines += ["addr add 10.255.255.1/24 dev underlay", "link set underlay up"]
    for _, inner, outer, address, _ in FLAT:
        lines += [f"link add {inner} type veth peer name {outer}", f"link set {inner} up"]
        lines += [f"addr add {address} dev {outer}", f"link set {outer} up"]
    subprocess.run(["ip", "-batch", "-"], input="\n".join(lines), text=True, check=True)


def make_databases() -> None:
    """Make all databases with their tables, two at a time."""
    names = ("keystone", "placement", "glance", "neutron", "nova", "nova_api", "nova_cell0")
    lines = [f"CREATE OR REPLACE USER openstack@'{HOST}' IDENTIFIED BY '{PASSWORD}';"]
    for name in names:
        lines += [f"DROP DATABASE IF EXISTS {name};", f"CREATE DATABASE {name};"]
        lines += [f"GRANT ALL ON {name}.* TO openstack@'{HOST}';"]
    subprocess.run(["mariadb"], input="\n".join(lines), text=True, check=True, env=ENVIRONMENT)

    def make(user: str) -> None:
        for command in TABLES[user]:
            run(user, command)
        tell(f"tables of {user} made")

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(make, TABLES))


def cloud(user: str, project: str) -> Any:
    """Return a connection."""
    import openstack

    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        region_name="RegionOne",
        auth={
            "auth_url": KEYSTONE,
            "username": user,
            "password": PASSWORD,
            "project_name": project,
            "user_domain_id": "default",
            "project_domain_id": "default",
        },
    )


def make_users() -> None:
    """Make services, projects and users."""
    identity = cloud("admin", "admin").identity
    roles = {role.name: role for role in identity.roles()}
    projects = {
        name: identity.create_project(name=name, domain_id="default")
        for name in ("service", *PROJECTS)
    }

    def user(name: str, role: str, *places: str) -> None:
        made = identity.create_user(name=name, password=PASSWORD, domain_id="default")
        for place in places:
            identity.assign_project_role_to_user(projects[place], made, roles[role])

    for name, (kind, url) in SERVICES.items():
        user(name, "admin", "service")
        service = identity.create_service(name=name, type=kind)
        for interface in ("public", "internal"):
            identity.create_endpoint(
                service_id=service.id, interface=interface, url=url, region_id="RegionOne"
            )
    user("osm", "admin", *PROJECTS)
    user("guest", "member", PROJECTS[0])


def make_networks() -> None:
    """Make the operator's networks, an image without content, and quotas that do not end."""
    run("nova", "nova-manage cell_v2 discover_hosts")
    admin = cloud("admin", "admin")
    network = admin.network
    for name, _, _, address, cidr in FLAT:
        external = name == "public"
        made = network.create_network(
            name=name,
            provider_network_type="flat",
            provider_physical_network=name,
            is_shared=not external,
            is_router_external=external,
        )
        gateway = address.partition("/")[0]
        network.create_subnet(
            network_id=made.id,
            name=f"{name}-subnet",
            ip_version=4,
            cidr=cidr,
            gateway_ip=gateway,
            is_dhcp_enabled=not external,
        )
    image = Path("/srv/image")
    image.write_bytes(bytes(1 << 20))
    admin.create_image(
        "ubuntu22.04",
        filename=str(image),
        disk_format="raw",
        container_format="bare",
        visibility="public",
        wait=True,
    )
    for name in PROJECTS:
        project = admin.identity.find_project(name).id
        admin.set_compute_quotas(project, instances=-1, cores=-1, ram=-1)
        unlimited = dict.fromkeys(("networks", "subnets", "ports", "floatingip"), -1)
        admin.set_network_quotas(project, **unlimited)


def wait_for_agents() -> None:
    """Wait until Neutron's agents and Nova's services have reported."""
    admin = cloud("admin", "admin")
    end = time.monotonic() + 300
    while True:
        agents = [agent.binary for agent in admin.network.agents() if agent.is_alive]
        services = [each.binary for each in admin.compute.services() if each.state == "up"]
        if len(agents) >= 4 and len(set(services)) >= 3:
            return
        for name, process in running.items():
            if process.poll() is not None:
                raise RuntimeError(f"{name} has ended: see {name}.log")
        if time.monotonic() > end:
            raise RuntimeError(f"only {agents} and {services} have reported")
        time.sleep(2)


def once(what: str, make: Callable[[], None]) -> None:
    """Make a part, unless it was made before."""
    made = MADE / what.split()[0]
    if not made.exists():
        tell(f"making {what}")
        make()
        MADE.mkdir(exist_ok=True)
        made.touch()


def main() -> None:
    """Run until a signal comes."""
    PROGRESS.write_text("")
    LOGS.mkdir(exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    socket.sethostname("openstack")
    Path("/etc/hosts").write_text("127.0.0.1 localhost openstack\n")
    try:
        write_configuration()
        make_devices()
        tell("starting the database and the message broker")
        start(BASE)
        once("databases", make_databases)
        tell("starting the APIs")
        start({"keystone": APIS["keystone"]})
        once("users and services", make_users)
        start({name: program for name, program in APIS.items() if name != "keystone"})
        tell(f"starting Neutron's agents, and Nova with {DRIVER}")
        start(AGENTS)
        wait_for_agents()
        once("networks and an image", make_networks)
        tell("ready")
        signal.pause()
    except SystemExit:
        stop()
    except Exception as error:
        fail(f"{error}".strip() or "no reason known")


if __name__ == "__main__":
    main()
