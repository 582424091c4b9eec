"""What `page.yaml` says of the page."""

from pathlib import Path

from builder import documents

LAYOUT = documents.read(Path(__file__).with_name("page.yaml"))
