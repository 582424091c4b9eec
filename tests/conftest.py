"""Makes the shared charm library importable, as a charm's `lib/` does."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "charms" / "lib"))
sys.path.insert(0, str(ROOT / "tests"))
