"""Every method and path the interface answers, below ``/osm``."""

from __future__ import annotations

from lab.records.store import NSDS, NSTS, VNFDS
from lab.server import services as ns
from lab.server import slices as nsi
from lab.server.administration import (
    administered,
    administration,
    delete_vca,
    delete_vim,
    domains,
    edit_vca,
    edit_vim,
    log_in,
    log_out,
    new_vca,
    new_vim,
    token,
    tokens,
    vca,
    vcas,
    version,
    vim,
    vims,
)
from lab.server.calls import Route, below, bound, nothing, refused
from lab.server.packages import package_routes


def _admin_tables() -> list[Route]:
    routes = []
    for table in (
        "users",
        "projects",
        "roles",
        "wim_accounts",
        "sdns",
        "k8sclusters",
        "k8srepos",
        "osmrepos",
    ):
        path = f"/admin/v1/{table}"
        routes += [
            Route("GET", path, bound(administration, table)),
            Route("GET", f"{path}/{{id}}", bound(administered, table)),
            Route("POST", path, refused),
            Route("PATCH", f"{path}/{{id}}", refused),
            Route("DELETE", f"{path}/{{id}}", refused),
        ]
    return routes


ROUTES: list[Route] = [
    Route("GET", "/version", version, open=True),
    *below(
        "/admin/v1",
        Route("POST", "/tokens", log_in, open=True),
        Route("GET", "/tokens", tokens),
        Route("DELETE", "/tokens", log_out),
        Route("GET", "/tokens/{id}", token),
        # To end a token it is enough to know it: OSM's GUI sends it in the path only.
        Route("DELETE", "/tokens/{id}", log_out, open=True),
        Route("GET", "/domains", domains),
        Route("GET", "/vim_accounts", vims),
        Route("POST", "/vim_accounts", new_vim),
        Route("GET", "/vim_accounts/{id}", vim),
        Route("DELETE", "/vim_accounts/{id}", delete_vim),
        Route("PATCH", "/vim_accounts/{id}", edit_vim),
        Route("GET", "/vca", vcas),
        Route("POST", "/vca", new_vca),
        Route("GET", "/vca/{id}", vca),
        Route("PATCH", "/vca/{id}", edit_vca),
        Route("DELETE", "/vca/{id}", delete_vca),
    ),
    *_admin_tables(),
    Route("GET", "/pdu/v1/pdu_descriptors", nothing),
    Route("GET", "/nsd/v1/ns_config_template", nothing),
    Route("GET", "/nsfm/v1/alarms/{id}/{project}/{ns}", nothing),
    *package_routes(VNFDS, "vnfpkgm/v1", "vnf_packages", "package_content", "vnfd"),
    *package_routes(NSDS, "nsd/v1", "ns_descriptors", "nsd_content", "nsd"),
    *package_routes(NSTS, "nst/v1", "netslice_templates", "nst_content", "nst"),
    *below(
        "/nslcm/v1",
        Route("GET", "/ns_instances_content", ns.services),
        Route("POST", "/ns_instances_content", ns.new_service),
        Route("GET", "/ns_instances_content/{id}", ns.service),
        Route("DELETE", "/ns_instances_content/{id}", ns.delete_service),
        Route("GET", "/ns_instances", ns.services),
        Route("POST", "/ns_instances", ns.create_service),
        Route("GET", "/ns_instances/{id}", ns.service),
        Route("DELETE", "/ns_instances/{id}", ns.forget_service),
        Route("POST", "/ns_instances/{id}/instantiate", ns.instantiate),
        Route("POST", "/ns_instances/{id}/migrate", ns.migrate),
        Route("POST", "/ns_instances/{id}/action", ns.action),
        Route("POST", "/ns_instances/{id}/terminate", ns.terminate),
        Route("POST", "/ns_instances_terminate", ns.delete_services),
        Route("POST", "/ns_instances/{id}/heal", ns.heal),
        Route("POST", "/ns_instances/{id}/scale", ns.scale),
        Route("POST", "/ns_instances/{id}/update", ns.update),
        Route("GET", "/ns_lcm_op_occs", ns.operations),
        Route("GET", "/ns_lcm_op_occs/{id}", ns.operation),
        Route("POST", "/ns_lcm_op_occs/{id}/cancel", ns.cancel),
        Route("GET", "/subscriptions", nothing),
        *(
            route
            for topic in ("vnfrs", "vnf_instances")
            for route in (
                Route("GET", f"/{topic}", ns.vnfs),
                Route("GET", f"/{topic}/{{id}}", ns.vnf),
            )
        ),
    ),
    *below(
        "/nsilcm/v1",
        Route("GET", "/netslice_instances_content", nsi.slices),
        Route("POST", "/netslice_instances_content", nsi.new_slice),
        Route("GET", "/netslice_instances_content/{id}", nsi.one_slice),
        Route("DELETE", "/netslice_instances_content/{id}", nsi.delete_slice),
        Route("GET", "/netslice_instances", nsi.slices),
        Route("POST", "/netslice_instances", nsi.create_slice),
        Route("GET", "/netslice_instances/{id}", nsi.one_slice),
        Route("DELETE", "/netslice_instances/{id}", nsi.forget_slice),
        Route("POST", "/netslice_instances/{id}/instantiate", nsi.instantiate_slice),
        Route("POST", "/netslice_instances/{id}/terminate", nsi.terminate_slice),
        Route("GET", "/nsi_lcm_op_occs", nsi.slice_operations),
        Route("GET", "/nsi_lcm_op_occs/{id}", nsi.slice_operation),
    ),
]
