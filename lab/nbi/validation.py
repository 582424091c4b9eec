"""The builder's validator behind the interface of the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from builder.validate import Catalog, PackageError, read, validate_package, validate_params
from lab.nbi.catalogue import Finding
from lab.records.store import Document


class BuilderValidator:
    """OSM's rules as ``builder.validate`` knows them."""

    def package(
        self,
        path: Path,
        vnfds: Mapping[str, Document],
        nsds: Mapping[str, Document],
        folders: Mapping[str, Path],
    ) -> Sequence[Finding]:
        """See :class:`lab.nbi.catalogue.Validator`."""
        catalog = Catalog(vnfds=dict(vnfds), nsds=dict(nsds))
        for vnfd_id, folder in folders.items():
            try:
                catalog.packages[vnfd_id] = read(folder)
            except PackageError:
                # Its charms cannot be looked into; it was accepted when it was onboarded.
                continue
        return validate_package(path, catalog)

    def ns_params(
        self, document: Mapping[str, Any], nsd: Document, vnfds: Mapping[str, Document]
    ) -> Sequence[Finding]:
        """See :class:`lab.nbi.catalogue.Validator`."""
        catalog = Catalog(vnfds=dict(vnfds), nsds={nsd["id"]: nsd})
        request = {key: value for key, value in document.items() if key != "nsdId"}
        return validate_params("ns", request, catalog)

    def nsi_params(
        self,
        document: Mapping[str, Any],
        nst: Document,
        nsds: Mapping[str, Document],
        vnfds: Mapping[str, Document],
    ) -> Sequence[Finding]:
        """See :class:`lab.nbi.catalogue.Validator`."""
        catalog = Catalog(vnfds=dict(vnfds), nsds=dict(nsds), nsts={nst["id"]: nst})
        request = {key: value for key, value in document.items() if key != "nstId"}
        return validate_params("nsi", request, catalog)
