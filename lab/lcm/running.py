"""The process of one operation: it gives up with a reason, whatever happens."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable

from lab.errors import LcmError, NbiError
from lab.records.jobs import record_worker
from lab.records.journal import Journal
from lab.records.operations import operation_folder
from lab.records.store import Document, Store


def run_operation(
    store: Store,
    op_id: str,
    collection: str,
    subject: str,
    work: Callable[[Journal], str],
    fail: Callable[[Store, Document, str], object],
) -> str:
    """Do an operation's work in this process; return its final state.

    Args:
        store: Records of the lab.
        op_id: Of the operation.
        collection: Of its document.
        subject: What the operation is on, in its journal: ``ns`` or ``nsi``.
        work: Does it and returns the final state.
        fail: Writes into the records that it failed, and why.
    """
    record_worker(store, op_id, os.getpid(), collection)
    journal = Journal(operation_folder(store.home, op_id) / "events.jsonl")
    try:
        return work(journal)
    except Exception as error:
        reason = str(error)
        if not isinstance(error, NbiError | LcmError):
            traceback.print_exc()
            reason = f"internal error: {error!r}"
        document = store.find(collection, op_id)
        if document is not None:
            fail(store, document, reason)
        journal.write("end", subject, reason, state="FAILED", detail=reason)
        journal.write("settled", subject, "failed", idle=True)
        return "FAILED"
    finally:
        journal.close()
