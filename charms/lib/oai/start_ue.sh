#!/bin/bash
# The image's own entry point would print the USIM with its keys.
# The arguments are those of lte-uesoftmodem.
set -eu
cd /opt/oai-lte-ue
/opt/oai-lte-ue/bin/conf2uedata -c /opt/oai-lte-ue/etc/ue_usim.conf -o /opt/oai-lte-ue >/dev/null
exec /opt/oai-lte-ue/bin/lte-uesoftmodem "$@"
