"""Cloud-init files with blocks, and variables that may be missing."""

import base64
import gzip
import time

import pytest
from support.validating import validate_package
from validate_support import ENTRY, PARAMS, Draft, catalog, ns, vnf

from builder.userdata import FORMATS
from builder.validate import Catalog, validate, validate_params
from builder.validate.reader import Entry

pytestmark = pytest.mark.slow


def with_text(text: str) -> Draft:
    made = vnf()
    made.files["cloud_init/init.yaml"].text = f"#cloud-config\n{text}\n"
    return made


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{% if OSM.vdu_id == 'vm' %}chpasswd: {list: [a:b]}{% endif %}", "cloud-init-password"),
        (
            "{% if OSM.vdu_id == 'vm' %}a: 1{% else %}chpasswd: {list: [a:b]}{% endif %}",
            "cloud-init-password",
        ),
        ("{% if OSM.vdu_id == 'vm' %}a: 1{% else %}a: [1{% endif %}", "cloud-init-yaml"),
        ("a:\n{% for name in OSM.vdu %}- [1\n{% endfor %}", "cloud-init-yaml"),
        ("{% if OSM.vdu_id == 'vm' %}a: 1{% else %}b: 2{% endif %}", None),
        ("a:\n{% for name in OSM.vdu %}- 1\n{% endfor %}", None),
    ],
)
def test_blocks_are_read_both_ways(text, code, tmp_path):
    problems = validate_package(with_text(text).tar(tmp_path / "x.tar.gz"), catalog())
    assert [p.code for p in problems] == ([code] if code else [])


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ("{{ a | safe }}", ["a"]),
        ("{{ a | default('x') }}", []),
        ("{% if a is defined %}{{ a }}{% endif %}", []),
        ("{{ a if a is defined else b }}", ["b"]),
        ("{% if a is defined and b %}{{ a }}{% endif %}", ["b"]),
        ("{% set a = 1 %}{{ a }}", []),
        ("{% for a in b %}{{ a }}{% endfor %}", ["b"]),
    ],
)
def test_variables_that_cloud_init_cannot_do_without(text, needed):
    known = Catalog()
    known.add(with_text(f"hostname: x{text}").package())
    known.add(ns().package())
    problems = validate_params("ns", PARAMS, known)
    assert [p.code for p in problems] == ["params-cloud-init"] * len(needed) * 2
    assert all(f"{name!r}" in p.sentence for p in problems for name in needed)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("a: 1 {# gone #}", "cloud-init-comment", "removes text"),
        ("a: {{ 'x' | b64encode }}", "cloud-init-jinja", "no filter 'b64encode'"),
        ("a: {{ name | nosuch | safe }}", "cloud-init-jinja", "no filter 'nosuch'"),
        ("{% filter nosuch %}a: 1{% endfilter %}", "cloud-init-jinja", "no filter 'nosuch'"),
        ("{% if OSM.vdu is nosuch %}{% endif %}a: 1", "cloud-init-jinja", "no test 'nosuch'"),
        ("{% include 'x' %}", "cloud-init-jinja", "another file"),
        ("{% import 'x' as y %}", "cloud-init-jinja", "another file"),
        ("{% from 'x' import y %}", "cloud-init-jinja", "another file"),
        ("{% extends 'x' %}", "cloud-init-jinja", "another file"),
        ("a: {{ x" + ".a" * 1200 + "|safe }}", "cloud-init-jinja", "nested too deeply"),
    ],
)
def test_what_jinja2_reads_and_cannot_render(text, code, words, tmp_path):
    (problem,) = validate_package(with_text(text).tar(tmp_path / "x.tar.gz"), catalog())
    assert (problem.code, words in problem.sentence) == (code, True), problem


@pytest.mark.parametrize(
    "text",
    [
        "#cloud-config\na: {% raw %}echo '{# fine #}' ${#a} ${#b#x}{% endraw %}\n",
        "#cloud-config-archive\n- {type: text/cloud-config, content: 'a: 1'}\n",
        "#cloud-config\nhostname: {{ OSM.vnfd_id | safe }}\n",
        "## template: jinja\n#cloud-config\na: {% raw %}{{ v1.region }}{% endraw %}\n",
        "## template: jinja\n#cloud-config\na: {{ name | safe }}\n",
        "## Template: Jinja\n#!/bin/sh\n",
    ],
)
def test_texts_that_cloud_init_takes(text, tmp_path):
    made = vnf()
    made.files["cloud_init/init.yaml"].text = text
    assert validate_package(made.tar(tmp_path / "x.tar.gz"), catalog()) == []


SSHD = "write_files: [{{path: /etc/ssh/sshd_config.d/1.conf, content: '{}'}}]"
SUDOERS = 'write_files: [{{path: /etc/sudoers.d/{}, content: "{}"}}]'
DROP = "runcmd: [iptables -P INPUT DROP, "
PACKED = base64.b64encode(gzip.compress(b"AllowUsers admin\n")).decode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("users: [{name: admin}]", "default-user ubuntu is not made"),
        ("users: [{name: ubuntu}]", "gets no key of OSM"),
        ("users: []", "is not made"),
        ("users: admin", "is not made"),
        ("users: {admin: {}}", "is not made"),
        ("users:", "is not made"),
        ("users: [{shell: /bin/zsh}]", ""),  # of the default user, as it has no name
        ("ssh_genkeytypes: [dsa]", "makes no host key that charms accept"),
        ("ssh_genkeytypes: []", "makes no host key that charms accept"),
        ("ssh_genkeytypes: [dsa, rsa]", ""),
        ("ssh_genkeytypes: []\nssh_keys: {rsa_private: x}", ""),
        ("write_files: [{path: /etc/hosts.deny, content: 'ALL: ALL'}]", "keeps ubuntu out"),
        ("runcmd: ['echo \"sshd : ALL\" >> /etc/hosts.deny']", "keeps ubuntu out"),
        ("write_files: [{path: /etc/hosts.deny, content: 'vsftpd: ALL'}]", ""),
        ("runcmd: ['echo exit >> /home/ubuntu/.bashrc']", "says 'exit', which keeps ubuntu out"),
        ('write_files: [{path: /etc/bash.bashrc, content: "a\\nexec zsh"}]', "says 'exec zsh'"),
        ("write_files: [{path: /home/ubuntu/.bashrc, content: '[ -t 0 ] || exit'}]", ""),
        ("write_files: [{path: /home/admin/.bashrc, content: exit}]", ""),
        (SUDOERS.format("99-hard", "%sudo ALL=(ALL:ALL) ALL"), "no sudo without a password"),
        (SUDOERS.format("99-hard", "Defaults !env\\nubuntu ALL=(ALL) ALL"), "no sudo without"),
        (SUDOERS.format("99-hard", "ubuntu ALL=(ALL) NOPASSWD:ALL"), ""),
        (SUDOERS.format("10-hard", "ubuntu ALL=(ALL) ALL"), ""),
        (SUDOERS.format("99-hard", "admin ALL=(ALL) ALL"), ""),
        ("users: {default: false, admin: true}", "is not made"),
        ("password: $6$salt$hash", "expires at once"),
        ("chpasswd: {list: 'ubuntu:RANDOM'}", "expires at once"),
        ("chpasswd: {users: [{name: ubuntu, type: RANDOM}], expire: 'yes'}", "expires at once"),
        ("user: {name: ubuntu, sudo: null}", "no sudo without a password"),
        ("system_info: {default_user: {sudo: ALL=(ALL) ALL}}", "no sudo without a password"),
        ("runcmd: [[chage, -d, '0', ubuntu]]", "cannot log in as ubuntu"),
        ("runcmd: [passwd -e ubuntu]", "cannot log in as ubuntu"),
        ("runcmd: [usermod -s /usr/sbin/nologin ubuntu]", "cannot log in as ubuntu"),
        ("runcmd: ['nft add rule ip filter input tcp dport 22 drop']", "nobody reaches SSH"),
        ("runcmd: [touch /etc/nologin]", "nobody reaches SSH"),
        ("write_files: [{path: /etc/nologin, content: ''}]", "keeps all users but root out"),
        ("write_files: [{path: /etc/sudoers.d/1, content: Defaults requiretty}]", "no terminal"),
        (SSHD.format("ForceCommand /bin/true"), "keeps ubuntu out"),
        (SSHD.format("ListenAddress 127.0.0.1"), "keeps ubuntu out"),
        ("user: {name: admin}", "becomes admin"),
        ("user: admin", "becomes admin"),
        ("system_info: {default_user: {name: cloud}}", "becomes cloud"),
        ("user: {name: ubuntu, shell: /usr/sbin/nologin}", "has the shell"),
        ("users: [default, {name: ubuntu, expiredate: '2020-01-01'}]", "ends"),
        ("runcmd: [[systemctl, disable, --now, ssh]]", "nobody reaches SSH"),
        ("bootcmd: ['systemctl mask sshd.service']", "nobody reaches SSH"),
        ("runcmd: [service ssh stop]", "nobody reaches SSH"),
        ("runcmd: [apt-get -y purge openssh-server]", "nobody reaches SSH"),
        ("runcmd: ['iptables -P INPUT DROP']", "nobody reaches SSH"),
        ("runcmd: [[ufw, deny, '22']]", "nobody reaches SSH"),
        ("runcmd: [poweroff]", "nobody reaches SSH"),
        ("power_state: {mode: poweroff}", "ends the VDU"),
        ("runcmd: [[passwd, -l, ubuntu]]", "cannot log in as ubuntu"),
        ("runcmd: [usermod -L -e 1 ubuntu]", "cannot log in as ubuntu"),
        ("runcmd: [[deluser, ubuntu]]", "cannot log in as ubuntu"),
        ("runcmd: [rm -f /home/ubuntu/.ssh/authorized_keys]", "cannot log in as ubuntu"),
        ("cloud_init_modules: [write-files, ssh]", "lacks users-groups"),
        (SSHD.format("Port 2222"), "keeps ubuntu out"),
        (SSHD.format("PubkeyAuthentication no"), "keeps ubuntu out"),
        (SSHD.format("AllowUsers admin"), "keeps ubuntu out"),
        (SSHD.format("DenyUsers ubuntu"), "keeps ubuntu out"),
        (SSHD.format("Port\t2222"), "keeps ubuntu out"),
        (SSHD.format("port=2222"), "keeps ubuntu out"),
        (SSHD.format("AuthenticationMethods password"), "keeps ubuntu out"),
        (SSHD.format("QWxsb3dVc2VycyBhZG1pbgo=', encoding: 'b64"), "keeps ubuntu out"),
        ("runcmd: ['echo \"AllowUsers admin\" >> /etc/ssh/sshd_config']", "keeps ubuntu out"),
        ("runcmd: [[sh, -c, echo Port 2222 >/etc/ssh/sshd_config.d/9.conf]]", "keeps ubuntu out"),
        ("runcmd: [ufw --force enable]", "nobody reaches SSH"),
        ("runcmd: [[firewall-cmd, --set-default-zone=drop]]", "nobody reaches SSH"),
        ("runcmd: [ufw allow OpenSSH, ufw --force enable]", ""),
        ("runcmd: [ufw allow 443/tcp, ufw --force enable]", "nobody reaches SSH"),
        (DROP + "iptables -A INPUT -p tcp --dport 443 -j ACCEPT]", "nobody reaches SSH"),
        (DROP + "iptables -A INPUT -p tcp --dport 2222 -j ACCEPT]", "nobody reaches SSH"),
        (DROP + "'iptables -A INPUT -p tcp -m multiport --dports 80,22 -j ACCEPT']", ""),
        (DROP + "'iptables -A INPUT -p tcp --dport 20:30 -j ACCEPT']", ""),
        (SSHD.format("AllowGroups staff"), "keeps ubuntu out"),
        (SSHD.format("AllowGroups sudo"), ""),
        (SSHD.format("AllowGroups staff") + "\nruncmd: [gpasswd -a ubuntu staff]", ""),
        (SSHD.format("DenyGroups ubuntu"), "keeps ubuntu out"),
        (SSHD.format("DenyGroups staff"), ""),
        (SSHD.format("MaxSessions 0"), "keeps ubuntu out"),
        (SSHD.format("MaxSessions 10"), ""),
        ("runcmd: ['sed -i \"s/#Port 22/Port 2222/\" /etc/ssh/sshd_config']", "keeps ubuntu out"),
        ("runcmd: [sed -i s/Port/Port/ /etc/services]", ""),
        (SSHD.format(PACKED + "', encoding: 'gz+b64"), "keeps ubuntu out"),
        (SSHD.format("H4sI!', encoding: 'gz+b64"), ""),
        ("runcmd: [echo systemctl stop ssh is bad]", ""),
        ("runcmd: ['echo off; systemctl stop ssh']", "nobody reaches SSH"),
        ("runcmd: [echo y | apt-get purge openssh-server]", "nobody reaches SSH"),
        ("runcmd: ['echo \"AllowUsers ubuntu\" >> /etc/ssh/sshd_config']", ""),
        ("runcmd: [echo Port 2222 >>/tmp/x]", ""),
        (SSHD.format("AuthenticationMethods publickey"), ""),
        (SSHD.format("Port=22"), ""),
        (SSHD.format("Port 22\n\n  Port 2222"), ""),
        ("runcmd: [iptables -P INPUT DROP, iptables -A INPUT -p tcp --dport 22 -j ACCEPT]", ""),
        ("runcmd: [rm -rf /home/ubuntu/.ssh]", "cannot log in as ubuntu"),
        ("users: [default, {name: admin}]", ""),
        ("users: 'default, admin'", ""),
        ("users: [[default, admin]]", ""),
        ("user: ubuntu\nusers: []", ""),
        ("password: $6$salt$hash\nchpasswd: {expire: false}", ""),
        ("chpasswd: {list: ['admin:RANDOM']}", ""),
        ("write_files: [{path: /etc/sudoers.d/1, content: 'Defaults !requiretty'}]", ""),
        ("user: {name: ubuntu}", ""),
        ("disable_root: true", ""),
        ("ssh_pwauth: false", ""),
        ("runcmd: [[systemctl, restart, ssh]]", ""),
        ("runcmd: [[systemctl, disable, apt-daily.timer], [usermod, -aG, docker, ubuntu]]", ""),
        ("runcmd: [[passwd, -l, admin]]", ""),
        ("power_state: {mode: reboot}", ""),
        (SSHD.format("PasswordAuthentication no"), ""),
        (SSHD.format("AllowUsers ubuntu admin"), ""),
        ("cloud_init_modules: [write-files, [users_groups, always], ssh]", ""),
        ("allow_public_ssh_keys: 'off'", "ubuntu gets no key of OSM"),
        ("allow_public_ssh_keys: true", ""),
    ],
)
def test_day_0_that_locks_osm_out(text, words, tmp_path):
    found = validate_package(with_text(text).tar(tmp_path / "x.tar.gz"), catalog())
    assert [p.code for p in found] == ["cloud-init-login"] * bool(words), found
    assert all(words in p.sentence for p in found)
    made = with_text(text)  # OSM does not log in: Day-0 may do what it likes
    made.drop("df/0/lcm-operations-configuration/operate-vnf-op-config/day1-2/0/config-access")
    made.put(f"{ENTRY}/0/initial-config-primitive/0/parameter/1/value", "<name>")
    assert validate_package(made.tar(tmp_path / "y.tar.gz"), catalog()) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("runcmd: [echo a: b]", "runs nothing of runcmd with {'echo a': 'b'} in it"),
        ("bootcmd: [[a, b], 5]", "runs nothing of bootcmd with 5 in it"),
        ("runcmd: systemctl restart x", "runs nothing of runcmd with 'systemctl restart x' in it"),
        ("runcmd: {a: b}", "runs nothing of runcmd"),
        ("runcmd: ['echo a: b', [a, 5, {}], null]", ""),
        ("runcmd:", ""),
    ],
)
def test_commands_that_cloud_init_does_not_take(text, words, tmp_path):
    found = validate_package(with_text(text).tar(tmp_path / "x.tar.gz"), catalog())
    assert [p.code for p in found] == ["cloud-init-yaml"] * bool(words), found
    assert all(words in p.sentence for p in found)


PARTS = """Content-Type: multipart/mixed; boundary="=="
MIME-Version: 1.0

--==
Content-Type: text/cloud-config

{}
--==
Content-Type: {}

{}
--==--
"""
ADMIN, BOTH = "users: [{name: admin}]", "#cloud-config\nusers: [default, {name: admin}]"
PACKED_CONFIG = base64.b64encode(gzip.compress(f"#cloud-config\n{ADMIN}\n".encode())).decode()
ZIPPED = PARTS.format("a: 1", "application/gzip\nContent-Transfer-Encoding: base64", PACKED_CONFIG)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PARTS.format(ADMIN, "text/x-shellscript", "#!/bin/sh\ntrue"), "ubuntu is not made"),
        (PARTS.format(BOTH, "text/cloud-config", ADMIN), "ubuntu is not made"),
        (PARTS.format("a: 1", "text/x-shellscript", "#!/bin/sh\npasswd -l ubuntu"), "log in as"),
        (PARTS.format("a: [1", "text/plain", "#!/bin/sh"), "(part 2)"),
        (PARTS.format("chpasswd: {list: [a:b]}", "text/plain", "#!/bin/sh"), "in clear"),
        ("#!/bin/sh\nsystemctl stop ssh\n", "nobody reaches SSH"),
        ("#cloud-boothook\n#!/bin/sh\nufw --force enable\n", "nobody reaches SSH"),
        ("#cloud-config-archive\n- type: text/cloud-config\n  content: |\n    users: []\n", "made"),
        ("#cloud-config-archive\n- '#!/bin/sh\n\n  poweroff'\n", "nobody reaches SSH"),
        ("#cloud-config-archive\n- content: 'users: [admin]'\n", "ubuntu is not made"),
        (PARTS.format("a: 1", "text/plain", "x").replace("MIME-Version: 1.0\n", ""), "is none for"),
        ("Subject: Day-0\n" + PARTS.format(ADMIN, "text/plain", "#!/bin/sh"), "is not made"),
        (PARTS.format("a: 1", "text/plain", "x"), "begins with 'x'"),
        (PARTS.format("a: 1", "image/png", BOTH), "has the type image/png"),
        (PARTS.format("a: 1", "text/x-shellscript", f"#cloud-config\n{ADMIN}"), "is not made"),
        (PARTS.format("a: 1", "text/plain", f"#cloud-config-archive\n- '{ADMIN}'"), "is not made"),
        (PARTS.format("a: 1", "text/part-handler", "#part-handler"), ""),
        (PARTS.replace("cloud-config", "part-handler").format("x", "text/own", "x"), ""),
        (ZIPPED, "is not made"),
        (ZIPPED.replace("H4sI", "AAAA"), "part 3 is no gzip"),
        ("#cloud-config-archive\na: 1\n", "is a list of parts"),
        ("\ufeff#cloud-config\na: 1\n", "a byte order mark"),
        (PARTS.format(ADMIN, "text/cloud-config", BOTH), ""),
        (PARTS.format(BOTH, "text/cloud-config", ADMIN + "\nmerge_how: list(append)"), ""),
        (PARTS.format("a: 1", "text/x-shellscript", "#!/bin/sh\n# passwd -l ubuntu"), ""),
        ("#!/bin/sh\nsystemctl restart ssh\n", ""),
    ],
)
def test_day_0_of_several_parts_and_scripts(text, words, tmp_path):
    made = vnf()
    made.files["cloud_init/init.yaml"].text = text
    found = validate_package(made.tar(tmp_path / "x.tar.gz"), catalog())
    assert len(found) == bool(words), found
    assert all(words in p.sentence for p in found)


def test_root_needs_disable_root_false(tmp_path):
    made = with_text("a: 1")
    made.put(f"{ENTRY}/0/config-access/ssh-access/default-user", "root")
    made.put(f"{ENTRY}/0/initial-config-primitive/0/parameter/1/value", "root")
    (problem,) = validate_package(made.tar(tmp_path / "x.tar.gz"), catalog())
    assert "disable_root keeps OSM's default-user root out" in problem.sentence
    made.files["cloud_init/init.yaml"].text += "disable_root: 'no'\n"
    assert validate_package(made.tar(tmp_path / "y.tar.gz"), catalog()) == []


@pytest.mark.parametrize("text", ["#cloud-config\n# für\n", "#!/bin/sh\n# für\n"])
@pytest.mark.parametrize(("encoding", "good"), [("latin-1", False), ("utf-8", True)])
def test_a_file_that_is_not_utf_8(text, encoding, good):
    package = vnf().package()
    package.files["cloud_init/init.yaml"] = Entry(text.encode(encoding))
    assert [p.code for p in validate(package, catalog())] == ["cloud-init-text"] * (not good)


@pytest.mark.parametrize(
    ("text", "twice"),
    [
        ("runcmd: [a]\nruncmd: [b]", True),
        ("write_files:\n- {path: a, path: b}", True),
        ("{% if OSM.vdu_id == 'a' %}a: 1{% else %}a: 2{% endif %}", False),
        (
            "{% if OSM.vdu_id == 'a' %}a: 1\n{% endif %}{% if OSM.vdu_id == 'b' %}a: 2{% endif %}",
            False,
        ),
    ],
)
def test_a_key_that_stands_twice(text, twice, tmp_path):
    found = validate_package(with_text(text).tar(tmp_path / "x.tar.gz"), catalog())
    assert [p.code for p in found] == ["key-twice"] * twice


@pytest.mark.parametrize(
    ("text", "codes", "words"),
    [
        ("#cloud-config\na: {{ v1.region | safe }}", ["cloud-init-jinja"], "only cloud-init knows"),
        ("#include\nhttps://a.example/", ["cloud-init-header"], "allowed: #cloud-config, #!"),
        ("#cloud-config\n- a", ["cloud-init-yaml"], "a mapping"),
        (
            "#cloud-config\na: {% raw %}{% if %}{% endraw %}",
            ["cloud-init-jinja"],
            "cloud-init cannot render RO's text",
        ),
        (
            "#cloud-config\n{% raw %}{% if v1.a %}chpasswd: {list: [a:b]}{% endif %}{% endraw %}",
            ["cloud-init-password"],
            "a password in clear",
        ),
    ],
)
def test_a_template_of_cloud_init_is_read_as_ro_and_cloud_init_render_it(
    text, codes, words, tmp_path
):
    made = vnf()
    made.files["cloud_init/init.yaml"].text = f"## template: jinja\n{text}\n"
    problems = validate_package(made.tar(tmp_path / "x.tar.gz"), catalog())
    assert [p.code for p in problems] == codes, problems
    assert words in problems[0].sentence


def test_a_long_row_of_comment_marks_takes_no_time(tmp_path):
    text = "a: |\n {% raw %}" + "{#" * 100_000 + "{% endraw %}"
    made = with_text(text).tar(tmp_path / "x.tar.gz")
    begin = time.process_time()
    assert validate_package(made, catalog()) == []
    assert time.process_time() - begin < 20


def test_an_unknown_first_line_names_the_formats(tmp_path):
    made = vnf()
    made.files["cloud_init/init.yaml"].text = "hello\n"
    (problem,) = validate_package(made.tar(tmp_path / "x.tar.gz"), catalog())
    assert problem.sentence.endswith("allowed: " + ", ".join(FORMATS))


MESSAGE = (
    "content-type: multipart/mixed; boundary=b\nmime-version: 1.0\n\n--b\n"
    "content-type: text/cloud-config\n\npassword: clear\n--b--\n"
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("#Cloud-Config\npassword: clear\n", "cloud-init-password"),
        ("\n \n#cloud-config\npassword: clear\n", "cloud-init-password"),
        (MESSAGE, "cloud-init-password"),
        ("\n" + MESSAGE, "cloud-init-header"),
        ("\n#!/bin/sh\ntrue\n", "cloud-init-header"),
        ("#Cloud-Boothook\n#!/bin/sh\ntrue\n", "cloud-init-header"),
    ],
)
def test_a_format_has_each_form_that_cloud_init_takes(text, code, tmp_path):
    made = vnf()
    made.files["cloud_init/init.yaml"].text = text
    found = validate_package(made.tar(tmp_path / "x.tar.gz"), catalog())
    assert code in [p.code for p in found], found
    assert ("cloud-init-header" in [p.code for p in found]) == (code == "cloud-init-header")
