"""User-data: which forms are read, which packages they want, what is refused."""

from dataclasses import replace
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

import pytest
import yaml

from lab.errors import VimError
from lab.vim import cloudinit
from lab.vim.model import Port, devices

CONFIG = "#cloud-config\npackages:\n- tmux\n- [git, 1.0]\n- curl=7.1\n- {apt: [vim, {apt: [jq]}]}\n"


def multipart(*parts: str) -> str:
    message = MIMEMultipart(boundary="=====")
    for text in parts:
        message.attach(MIMEText(text, "plain", "utf-8"))
    return message.as_string()


def typed(kind: str, text: str) -> str:
    message = MIMEMultipart(boundary="=====")
    message.attach(MIMEText(text, kind, "utf-8"))
    return message.as_string()


def test_packages_of_plain_config() -> None:
    assert cloudinit.wanted_packages(CONFIG) == ["tmux", "git", "curl", "vim", "jq"]


def test_packages_of_every_part_of_a_message() -> None:
    text = multipart("#!/bin/sh\necho packages: [no]\n", CONFIG, "#cloud-config\npackages: [bc]\n")
    assert cloudinit.wanted_packages(text) == ["tmux", "git", "curl", "vim", "jq", "bc"]


def test_the_type_of_a_part_counts_before_its_first_line() -> None:
    text = "packages: [curl]\n"
    assert cloudinit.wanted_packages(typed("cloud-config", text)) == ["curl"]
    # cloud-init trusts a script's type no more than that of plain text.
    assert cloudinit.wanted_packages(typed("x-shellscript", f"#cloud-config\n{text}")) == ["curl"]
    assert cloudinit.wanted_packages(typed("cloud-boothook", f"#cloud-config\n{text}")) == []
    with pytest.raises(VimError, match="is a mapping \\(part 2\\)"):
        cloudinit.wanted_packages(typed("cloud-config", "- curl\n"))


ARCHIVE = """#cloud-config-archive
- type: text/cloud-config
  content: "packages: [tmux]"
- "packages: [git]"
- |
  #!/bin/sh
  true
"""


@pytest.mark.parametrize(
    "text", [ARCHIVE, multipart(ARCHIVE), typed("cloud-config-archive", ARCHIVE)]
)
def test_an_archive_is_read_entry_by_entry(text: str) -> None:
    assert cloudinit.wanted_packages(text) == ["tmux", "git"]
    cloudinit.cloud_configs(text)


def test_an_archive_that_cloud_init_would_not_read_is_refused() -> None:
    with pytest.raises(VimError, match=r"\(entry 1\) has the type image/png"):
        cloudinit.cloud_configs(ARCHIVE.replace("text/cloud-config\n", "image/png\n"))
    with pytest.raises(VimError, match="is a list of parts"):
        cloudinit.cloud_configs("#cloud-config-archive\na: 1\n")


@pytest.mark.parametrize(
    "kind", ["cloud-config", "cloud-boothook", "x-shellscript", "x-shellscript-per-boot", "jinja2"]
)
def test_a_part_with_a_type_of_cloud_inits_needs_no_header(kind: str) -> None:
    cloudinit.cloud_configs(typed(kind, "packages: [curl]\n"))


@pytest.mark.parametrize("text", ["#!/bin/sh\ntrue\n", "#cloud-config\n", "#cloud-config\n{}\n"])
def test_no_packages(text: str) -> None:
    assert cloudinit.wanted_packages(text) == []


def test_bad_yaml_names_the_line() -> None:
    with pytest.raises(VimError, match=r"can use: line 3, column 2"):
        cloudinit.cloud_configs("#cloud-config\na: [1\nb: 2\n")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("#cloud-config\n- a\n", "a cloud-config is a mapping"),
        ("#cloud-config\npackages: tmux\n", "not a list"),
        ("#cloud-config\npackages: [3]\n", "no package: 3"),
    ],
)
def test_wrong_config(text: str, words: str) -> None:
    with pytest.raises(VimError, match=words):
        cloudinit.wanted_packages(text)


@pytest.mark.parametrize(
    "text",
    [
        "hostname: a\n",
        "\ufeff#cloud-config\n",
        multipart("just text"),
        multipart(CONFIG).replace("MIME-Version: 1.0\n", ""),
        typed("html", "a"),
        "#cloud-conf\n",
        "#cloud-config-archive\n- {type: text/plain, content: '#cloud-config'}\n",
    ],
)
def test_user_data_cloud_init_would_ignore(text: str) -> None:
    with pytest.raises(VimError, match="cloud-init would ignore it"):
        cloudinit.cloud_configs(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "#cloud-config\n",
        "\n#Cloud-Config\n",
        "#!/bin/sh\n",
        "## template: jinja\n#cloud-config\n",
        "Subject: Day-0\nmime-version: 1.0\n\n#cloud-config\n",
    ],
)
def test_user_data_known(text: str) -> None:
    cloudinit.cloud_configs(text)


def test_a_handler_of_the_users_own_takes_parts_of_any_type() -> None:
    parts = MIMEMultipart(boundary="=====")
    handler = MIMEText("def list_types(): return ['text/own']", "part-handler", "utf-8")
    for part in (handler, MIMEText("a", "own", "utf-8"), MIMEText(CONFIG, "plain", "utf-8")):
        parts.attach(part)
    assert len(cloudinit.cloud_configs(parts.as_string())) == 1
    parts.set_payload(parts.get_payload()[1:])
    with pytest.raises(VimError, match="has the type text/own"):
        cloudinit.cloud_configs(parts.as_string())


def test_missing_packages_are_all_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloudinit, "installed_packages", lambda: {"tmux", "git", "vim"})
    with pytest.raises(VimError, match=r"apt-get install curl jq'"):
        cloudinit.check_packages(CONFIG)


def test_default_user_and_seed() -> None:
    config = yaml.safe_load(cloudinit.cloud_cfg("ubuntu", "ubuntu"))
    user = config["system_info"]["default_user"]
    assert user["name"] == "ubuntu"
    assert user["lock_passwd"] is True
    assert user["sudo"] == ["ALL=(ALL) NOPASSWD:ALL"]
    # Packages cannot be fetched, so the module that would try must not be there.
    assert not [m for key in config if key.endswith("_modules") for m in config[key] if "pack" in m]
    files = cloudinit.seed("id-1", "hss", ["ssh-ed25519 AAAA k"], CONFIG)
    assert files["user-data"] == CONFIG
    meta = yaml.safe_load(files["meta-data"])
    assert meta["instance-id"] == "id-1"
    assert meta["public-keys"] == ["ssh-ed25519 AAAA k"]
    ports = [Port("p", "net", "enp4s0", "dev", "10.0.0.2", "fa:16:3e:00:00:04", True, tag="ens4")]
    given = {"type": "nic", "bus": "pci", "mac": "fa:16:3e:00:00:04", "tags": ["ens4"]}
    files = cloudinit.seed("id-1", "hss", [], None, devices([*ports, replace(ports[0], tag="")]))
    assert yaml.safe_load(files["meta-data"])["devices"] == [given]


def test_the_end_of_the_output_is_what_came_before_the_last_message() -> None:
    end = "Cloud-init v. 25.1.4 finished at Sat, 28 Nov 2026 11:35:10 +0000. Up 26.82 seconds"
    failing = [
        "begins",
        *map(str, range(9)),
        "about to fail",
        "cc_scripts_user.py[WARNING]: Failed",
    ]
    keys = ["Generating public/private ed25519 key pair.", *["|   .o   |"] * 20]
    for output in (failing, [*failing, end], [*failing, end, *keys], [end, *keys, *failing, end]):
        told = cloudinit.end_of("\n".join(output) + "\n")
        assert "about to fail | cc_scripts_user.py[WARNING]: Failed" in told
        assert told.count(" | ") == 4
    assert cloudinit.end_of("") == ""
