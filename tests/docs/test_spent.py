"""A run of the tests says where its time went."""

from __future__ import annotations

import time

from support import spent


def test_modules_by_time_then_folders_and_the_sum() -> None:
    seconds = {f"tests/core/test_{number}.py": 0.5 for number in range(30)}
    seconds |= {"tests/lab/e2e/test_slow.py": 100.0, "tests/lab/vim/test_vim.py": 20.0}
    lines = spent.table(seconds, 4)
    assert lines[0] == "   100.0 s  tests/lab/e2e/test_slow.py"
    assert lines[1] == "    20.0 s  tests/lab/vim/test_vim.py"
    assert lines[spent.LINES] == "     6.0 s  12 more modules"
    assert lines[-2] == "by folder: lab/e2e 100 s, lab/vim 20 s, core 15 s"
    assert lines[-1] == "in all 135 s, 34 s for each of 4 workers"


def test_processor_seconds_grow_with_work() -> None:
    before, until = spent.processor_seconds(), time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    assert spent.processor_seconds() - before >= 0.1
