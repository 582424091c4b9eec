"""Content of the images: simulators in place of the programs of network functions.

This module uses the standard library only, because :mod:`simulators.engine.podman` starts often.
"""

from dataclasses import dataclass

PATH = "/image/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Image:
    """An image: simulators by the paths of the programs that they replace, and its entry point.

    For charms that use a digest, the image has the tag ``latest`` and the digest that they use.
    """

    programs: dict[str, str]
    entrypoint: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    repository: str = "oaisoftwarealliance"
    tag: str = "latest"


IMAGES_4G = {
    "cassandra": Image(
        {"/image/bin/cassandra": "cassandra", "/image/bin/cqlsh": "cqlsh"},
        ("cassandra",),
        repository="library",
        tag="2.1.22",
    ),
    "redis": Image(
        {"/image/bin/redis-server": "redis"},
        ("redis-server",),
        repository="library",
        tag="6.0.5",
    ),
    "oai-hss": Image(
        {"/openair-hss/bin/oai_hss": "hss"}, directories=("/openair-hss/etc", "/openair-hss/logs")
    ),
    "magma-mme": Image(
        {"/magma-mme/bin/oai_mme": "mme", "/magma-mme/bin/sctpd": "sctpd"},
        directories=("/magma-mme/etc", "/magma-mme/scripts"),
    ),
    "oai-spgwc": Image(
        {"/openair-spgwc/bin/oai_spgwc": "spgwc"}, directories=("/openair-spgwc/etc",)
    ),
    "oai-spgwu-tiny": Image(
        {"/openair-spgwu-tiny/bin/oai_spgwu": "spgwu"},
        directories=("/openair-spgwu-tiny/etc",),
        tag="v1.5.1",
    ),
    "oai-enb": Image(
        {"/opt/oai-enb/bin/lte-softmodem": "enb"},
        directories=("/opt/oai-enb/etc",),
        tag="2022.w46",
    ),
    "oai-lte-ue": Image(
        {
            "/opt/oai-lte-ue/bin/lte-uesoftmodem": "ue",
            "/opt/oai-lte-ue/bin/conf2uedata": "conf2uedata",
        },
        directories=("/opt/oai-lte-ue/etc",),
        tag="2022.w46",
    ),
}
IMAGES_5G = {
    "mysql": Image(
        {"/image/bin/mysqld": "mysqld", "/image/bin/mysql": "mysql"},
        ("mysqld",),
        repository="library",
        tag="9.6.0",
    ),
    **{
        f"oai-{name}": Image(
            {f"/openair-{name}/bin/oai_{name}": name},
            directories=(f"/openair-{name}/etc",),
            tag="v2.2.1",
        )
        for name in ("nrf", "udr", "udm", "ausf", "amf", "smf", "upf")
    },
    "n3iwf": Image(
        {"/free5gc/n3iwf": "n3iwf"},
        directories=("/free5gc/config", "/free5gc/cert"),
        repository="free5gc",
        tag="v4.2.3",
    ),
    "n3iwue": Image(
        {"/n3iwue/n3iwue": "n3iwue"},
        directories=("/n3iwue/config", "/n3iwue/cert"),
        repository="free5gc",
    ),
    "oai-gnb": Image({"/opt/oai-gnb/bin/nr-softmodem": "gnb"}, directories=("/opt/oai-gnb/etc",)),
    "oai-nr-ue": Image(
        {"/opt/oai-nr-ue/bin/nr-uesoftmodem": "nr-ue"}, directories=("/opt/oai-nr-ue/etc",)
    ),
}
IMAGES = {**IMAGES_4G, **IMAGES_5G}


def reference(name: str) -> str:
    """Return the name with which charms pull the image."""
    image = IMAGES[name]
    return f"docker.io/{image.repository}/{name}:{image.tag}"
