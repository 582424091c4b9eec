"""The page of an empty lab in a browser, under its Content-Security-Policy.

Cast: operator, in a browser.

Seen:
- the page works, and loads nothing from elsewhere.
"""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from e2e_page import PASSWORD, browser, served

pytestmark = pytest.mark.long

FROM_ELSEWHERE = """
const [done] = arguments, found = [];
document.addEventListener('securitypolicyviolation', event => {
  found.push(event.effectiveDirective);
  if (found.length === 4) done(found.sort());
});
const add = (tag, more) => document.body.append(Object.assign(document.createElement(tag), more));
add('img', {src: 'http://127.0.0.1:9/x.png'});
add('script', {src: 'http://127.0.0.1:9/x.js'});
add('iframe', {src: 'http://127.0.0.1:9/'});
fetch('http://127.0.0.1:9/secret').catch(() => null);
"""


def test_the_page_works_under_its_policy_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    lab: Any = SimpleNamespace(home=tmp_path)
    with served(lab) as url, browser(url) as seen:
        seen.open("/")
        seen.login(PASSWORD)
        seen.text("Services")
        assert seen.severe() == []
        seen.driver.set_script_timeout(20)
        refused = seen.driver.execute_async_script(FROM_ELSEWHERE)
        assert refused == ["connect-src", "frame-src", "img-src", "script-src-elem"]
