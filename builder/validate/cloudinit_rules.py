"""Rules for Day-0: RO renders every cloud-init file with Jinja2."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml
from jinja2 import Environment, StrictUndefined, TemplateSyntaxError, meta, nodes

from builder.validate.context import Context, rule
from builder.validate.problem import Problem

HEADERS = ("#cloud-config", "#!", "Content-Type: multipart", "## template:", "#include")
TOO_MUCH = 1 << 20


@rule("vnfd")
def cloud_init(ctx: Context) -> Iterator[Problem]:
    """The file is there, and OSM's rendering leaves it what it was meant to be."""
    for place, vdu in ctx.vdus():
        name = vdu.get("cloud-init-file")
        if (vdu.get("supplemental-boot-data") or {}).get("boot-data-drive"):
            yield ctx.problem(
                "silent",
                "boot-data-drive",
                f"{place}/supplemental-boot-data",
                "boot-data-drive drops OSM's SSH keys from user-data, so key injection fails",
            )
        if not name:
            continue
        path = ctx.package.folder("cloud_init") + name
        text = ctx.package.text(path)
        if text is None:
            yield ctx.problem(
                "refused",
                "cloud-init-missing",
                f"{place}/cloud-init-file",
                f"the package has no {path}",
                f"Cloud-init defined in vnf[id={ctx.body['id']}]:vdu[id={vdu['id']}] "
                "but not present in package",
            )
        else:
            yield from _text(ctx, path, text[:TOO_MUCH])


def _text(ctx: Context, path: str, text: str) -> Iterator[Problem]:
    if not text.startswith(HEADERS):
        yield ctx.in_file(
            "silent",
            "cloud-init-header",
            path,
            "the first line names no format cloud-init knows, such as #cloud-config",
        )
    environment = Environment(undefined=StrictUndefined, autoescape=True)
    try:
        tree = environment.parse(text)
    except TemplateSyntaxError as error:
        hint = " (shell's ${#name} must be written otherwise)" if "{#" in text else ""
        yield ctx.in_file(
            "silent",
            "cloud-init-jinja",
            f"{path}:{error.lineno}",
            f"Jinja2 cannot read it: {error.message}{hint}; literal braces need raw blocks",
        )
        return
    lost = len(re.findall(r"\{#.*?#\}", text, re.DOTALL))
    if lost:
        yield ctx.in_file(
            "silent",
            "cloud-init-comment",
            path,
            f"{lost} part(s) between '{{#' and '#}}' disappear as Jinja2 comments",
        )
    if any(True for _ in tree.find_all(nodes.Output)) or meta.find_undeclared_variables(tree):
        for expression in tree.find_all(nodes.Output):
            for node in expression.nodes:
                if isinstance(node, nodes.Name):
                    yield ctx.in_file(
                        "silent",
                        "cloud-init-escape",
                        f"{path}:{node.lineno}",
                        f"& < > and quotes in {node.name} become HTML entities; "
                        "add |safe where the value is to be taken as it is",
                    )
    elif text.startswith("#cloud-config"):
        yield from _config(ctx, path, text)


def _config(ctx: Context, path: str, text: str) -> Iterator[Problem]:
    try:
        document = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        reason = " ".join(str(error).split())[:160]
        yield ctx.in_file("silent", "cloud-init-yaml", path, f"not YAML: {reason}")
        return
    if document is not None and not isinstance(document, dict):
        yield ctx.in_file("silent", "cloud-init-yaml", path, "a cloud-config must be a mapping")
        return
    secrets = {"password", "chpasswd"} & set(document or {})
    users = [u for u in (document or {}).get("users") or () if isinstance(u, dict)]
    if secrets or any({"passwd", "plain_text_passwd", "hashed_passwd"} & set(u) for u in users):
        yield ctx.in_file(
            "silent",
            "cloud-init-password",
            path,
            "a password in a package is known to all who can read the package",
        )
