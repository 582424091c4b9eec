"""Every method and path the interface answers, below ``/osm``."""

from functools import partial

from lab.api import administration as admin
from lab.api import services as ns
from lab.api.calls import Route, below, discard_damaged, nothing, refused, shown
from lab.api.packages import package_routes
from lab.records.store import NSDS, NSIOPS, NSIS, NSRS, NSTS, OPS, VCAS, VIMS, VNFDS, VNFRS

_FIXED = (
    *("users", "projects", "roles"),
    *("wim_accounts", "sdns", "k8sclusters", "k8srepos", "osmrepos"),
)


def _administered(path: str, table: str) -> list[Route]:
    return [
        Route("GET", path, partial(admin.administration, table)),
        Route("GET", f"{path}/{{id}}", partial(admin.administered, table)),
    ]


def _fixed(table: str) -> list[Route]:
    """Return the routes of a table that cannot be changed."""
    path = f"/admin/v1/{table}"
    return [
        *_administered(path, table),
        Route("POST", path, refused),
        Route("PATCH", f"{path}/{{id}}", refused),
        Route("DELETE", f"{path}/{{id}}", refused),
    ]


def _two_steps(path: str) -> list[Route]:
    """Return the routes of SOL005's separate steps, which OSM has and the lab has not."""
    return [
        Route("POST", path, refused),
        Route("DELETE", f"{path}/{{id}}", refused),
        Route("POST", f"{path}/{{id}}/instantiate", refused),
        Route("POST", f"{path}/{{id}}/terminate", refused),
    ]


ROUTES: list[Route] = [
    Route("GET", "/version", admin.version, open=True),
    *below(
        "/admin/v1",
        Route("POST", "/tokens", admin.log_in, open=True),
        Route("GET", "/tokens", admin.tokens),
        Route("DELETE", "/tokens", admin.log_out),
        Route("GET", "/tokens/{id}", admin.token),
        # To end a token it is enough to know it: OSM's GUI sends it in the path only.
        Route("DELETE", "/tokens/{id}", admin.log_out, open=True),
        Route("GET", "/domains", admin.domains),
        *shown("/vim_accounts", VIMS),
        Route("POST", "/vim_accounts", admin.new_vim),
        Route("DELETE", "/vim_accounts/{id}", admin.delete_vim),
        Route("PATCH", "/vim_accounts/{id}", admin.edit_vim),
        *_administered("/vca", VCAS),
        Route("POST", "/vca", admin.new_vca),
        Route("PATCH", "/vca/{id}", admin.edit_vca),
        Route("DELETE", "/vca/{id}", admin.delete_vca),
    ),
    *(route for table in _FIXED for route in _fixed(table)),
    Route("GET", "/pdu/v1/pdu_descriptors", nothing),
    Route("GET", "/nsd/v1/ns_config_template", nothing),
    Route("GET", "/nsfm/v1/alarms/{id}/{project}/{ns}", nothing),
    *package_routes(VNFDS, "vnfpkgm/v1", "vnf_packages", "package_content", "vnfd"),
    *package_routes(NSDS, "nsd/v1", "ns_descriptors", "nsd_content", "nsd"),
    *package_routes(NSTS, "nst/v1", "netslice_templates", "nst_content", "nst"),
    *below(
        "/nslcm/v1",
        *shown("/ns_instances_content", NSRS),
        Route("POST", "/ns_instances_content", ns.new_service),
        Route("DELETE", "/ns_instances_content/{id}", ns.delete_service),
        *shown("/ns_instances", NSRS),
        *_two_steps("/ns_instances"),
        Route("POST", "/ns_instances/{id}/migrate", refused),
        *(
            Route("POST", f"/ns_instances/{{id}}/{kind}", partial(ns.operate, kind))
            for kind in ("action", "heal", "scale", "update")
        ),
        Route("POST", "/ns_instances_terminate", ns.delete_services),
        *shown("/ns_lcm_op_occs", OPS),
        Route("DELETE", "/ns_lcm_op_occs/{id}", partial(discard_damaged, OPS)),
        Route("POST", "/ns_lcm_op_occs/{id}/cancel", ns.cancel),
        Route("GET", "/subscriptions", nothing),
        *shown("/vnfrs", VNFRS),
        *shown("/vnf_instances", VNFRS),
        Route("DELETE", "/vnf_instances/{id}", partial(discard_damaged, VNFRS)),
    ),
    *below(
        "/nsilcm/v1",
        *shown("/netslice_instances_content", NSIS),
        Route("POST", "/netslice_instances_content", ns.new_slice),
        Route("DELETE", "/netslice_instances_content/{id}", ns.delete_slice),
        *shown("/netslice_instances", NSIS),
        *_two_steps("/netslice_instances"),
        *shown("/nsi_lcm_op_occs", NSIOPS),
        Route("DELETE", "/nsi_lcm_op_occs/{id}", partial(discard_damaged, NSIOPS)),
    ),
]
