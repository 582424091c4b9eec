"""The step that fetches a secret from a store to the VDU, and its result."""

from typing import List, Mapping, Tuple

from vpnaas.params.servers import SecretReference
from vpnaas.vdu.programs import source
from vpnaas.vdu.steps import Results, Step, ask, read, remove

SECONDS = 60
MARK = "store-"
"""Start of the name of a fetched key. The program on the VDU has the same constant."""
Form = Tuple[str, str, str]
"""Field of the secret, regular expression of its value, and the same in words."""


def state_file(file: str) -> str:
    """Return the file with the reason why the last fetch of a file failed; empty after success."""
    return file + ".state"


def fetch(
    id: str, reference: SecretReference, fields: Mapping[str, Form], file: str, text: bool = False
) -> Step:
    """Return the step that fetches a secret's fields into a file.

    The file gets JSON of the values by name, or with `text` the only value itself.
    """
    request = {
        "server": reference.server,
        "root": reference.root.pem,
        "token": reference.token,
        "path": reference.path,
        "fields": {name: list(form) for name, form in fields.items()},
        "file": file,
        "text": text,
    }
    return ask(id, source("secret_store.py"), request, SECONDS)


def forget(file: str) -> List[Step]:
    """Return the steps that remove a fetched file and the two files that describe it."""
    return [remove(path, path) for path in (file, file + ".for", state_file(file))]


def refusal(id: str, results: Results) -> str:
    """Return why a fetch failed, "" if it did not."""
    if results.exit_code(id) == 0:
        return ""
    if results.exit_code(id) == 1 and "Traceback" not in results.error(id):
        return (results.error(id).splitlines() or ["the VDU did not run it"])[-1]
    return results.why(id)


def observe(id: str, file: str) -> Step:
    """Return the step that reads why the last fetch failed."""
    return read(id, state_file(file))


def last_refusal(id: str, results: Results) -> str:
    """Return the sentence for the status, "" if the last fetch did not fail."""
    reason = (results.text(id) or "").strip()
    if not reason:
        return ""
    return "the last fetch from the secret store failed, the earlier secrets stay: " + reason
