"""One Diameter request with an IMSI, to see whether a wire shows it (RFC 6733, TS 29.272).

An Update-Location-Request as an MME sends it over S6a, with only the AVPs that a dissector needs
to find the subscriber.
"""

from diameter.message.commands import UpdateLocationRequest
from diameter.message.constants import APP_3GPP_S6A_S6D

PORT = 3868
TEST_IMSI = "001010000000001"  # An IMSI of the test network 001-01 (ITU-T E.212).


def update_location(imsi: str) -> bytes:
    request = UpdateLocationRequest()
    request.header.application_id = APP_3GPP_S6A_S6D
    request.session_id = "mme.test;1;1"
    request.origin_host = b"mme.test"
    request.origin_realm = request.destination_realm = b"test"
    request.user_name = imsi
    request.visited_plmn_id = bytes.fromhex("00f110")  # 001-01
    return bytes(request.as_bytes())
